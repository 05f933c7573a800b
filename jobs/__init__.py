"""Jobs: identities, attempts and fencing tokens. Nothing is public here yet."""
