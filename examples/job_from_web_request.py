"""Long work asked for over HTTP: the request's idempotency key is the job's id, so repeating it is safe.

pip install fastapi httpx
python examples/job_from_web_request.py           # sends itself some requests and ends
uvicorn examples.job_from_web_request:api         # or serve it; the work is done by
selfmanaged jobs examples.job_from_web_request:app
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import httpx
from fastapi import FastAPI, Header, HTTPException, Response
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from jobs import JobContext, JobIdentityConflictError, JobRegistry, JobSubmission, JobSubmissionError
from relay import App, add_messaging_tables
from uow import Contracts, TextError, prepare_sqlite

SCOPE = "library"

metadata = MetaData()
registry = JobRegistry()
add_messaging_tables(metadata)
directory = tempfile.TemporaryDirectory()
engine = create_async_engine(f"sqlite+aiosqlite:///{Path(directory.name) / 'library.db'}")
prepare_sqlite(engine)
app = App(engine=engine, metadata=metadata, contracts=Contracts(), jobs=[registry])


@registry.handler("exports.write", timeout_seconds=60)
async def write_export(context: JobContext) -> str:
    await asyncio.sleep(0.1)  # stands for the work
    return f"/files/{context.arguments['shelf']}.csv"


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    yield
    await app.close()
    await engine.dispose()


api = FastAPI(lifespan=lifespan)


@api.post("/exports", status_code=202)
async def ask_for_export(
    shelf: str, idempotency_key: Annotated[str, Header()], response: Response
) -> dict[str, str]:
    try:
        job = await app.jobs.submit(
            JobSubmission.create(
                scope=SCOPE, job_id=idempotency_key, handler="exports.write", arguments={"shelf": shelf}
            )
        )
    except JobIdentityConflictError:
        raise HTTPException(409, "this idempotency key was used for another request") from None
    except (JobSubmissionError, TextError) as error:
        raise HTTPException(422, str(error)) from None
    response.headers["Location"] = f"/exports/{job.job_id}"
    return {"job": job.job_id}


@api.get("/exports/{key}")
async def look_at_export(key: str) -> dict[str, str | None]:
    job = await app.jobs.find(SCOPE, key)
    if job is None:
        raise HTTPException(404, "there is no such export")
    return {"state": job.state, "file": job.result_reference}


async def send_requests(client: httpx.AsyncClient) -> None:
    for key, shelf in (("key-1", "poetry"), ("key-1", "poetry"), ("key-1", "travel"), (" ", "poetry")):
        answer = await client.post("/exports", params={"shelf": shelf}, headers={"Idempotency-Key": key})
        print(f"POST {shelf}: {answer.status_code} {answer.json()}")
    print("GET:", (await client.get("/exports/key-1")).json())
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run_jobs(stop))  # in production a process of its own
        await app.jobs.wait(SCOPE, "key-1")
        stop.set()
    print("GET:", (await client.get("/exports/key-1")).json())
    print("jobs stored:", len(await app.jobs.list(SCOPE)))


async def main() -> None:
    transport = httpx.ASGITransport(api)
    async with lifespan(api), httpx.AsyncClient(transport=transport, base_url="http://library") as client:
        await send_requests(client)
    directory.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
