"""What named leases refuse."""

from jobs.schedule.batching.scoped_name import shown_name
from uow.errors import TryAgainError


class LeaseHeldError(TryAgainError):
    """Another owner holds the lease, so the work was not begun; its own end, or the expiry, frees it.

    `owner` and `token` are the holder's, None when it was freed meanwhile.
    """

    def __init__(self, name: str, tenant: str | None, owner: str | None, token: int | None) -> None:
        holder = "another was quicker" if owner is None else f"{owner} holds it with token {token}"
        super().__init__(f"the lease {shown_name(name, tenant)} is not free: {holder}")
        self.name = name
        self.tenant = tenant
        self.owner = owner
        self.token = token

    def __reduce__(self) -> tuple[type["LeaseHeldError"], tuple[str, str | None, str | None, int | None]]:
        return type(self), (self.name, self.tenant, self.owner, self.token)


class LeaseLostError(TryAgainError):
    """The lease ran out or is another's by now: what it guards is rolled back, and the work must stop."""

    def __init__(self, name: str, tenant: str | None, token: int) -> None:
        super().__init__(
            f"the lease {shown_name(name, tenant)} with token {token} is held no longer; "
            "what it guards must not be kept"
        )
        self.name = name
        self.tenant = tenant
        self.token = token

    def __reduce__(self) -> tuple[type["LeaseLostError"], tuple[str, str | None, int]]:
        return type(self), (self.name, self.tenant, self.token)
