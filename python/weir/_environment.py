"""Which rank of how many this process is: as given, or as its launcher says in the environment."""

from weir import _weir


def rank_and_world_size(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """What is given counts; either alone is a mistake that would go unnoticed, so it is refused."""
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise ValueError("give rank and world_size together, or neither (then the launcher's environment counts)")
    return _weir._launcher()
