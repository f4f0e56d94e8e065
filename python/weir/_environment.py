"""Which rank of how many this process is: as given, or as its launcher says in the environment."""

import os

# torchrun, Open MPI, MPICH and its kin, Slurm: `weir run` reads the same ones in the same order.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)

_WAYS_OUT = "correct or unset them, or give rank and world_size"


def rank_and_world_size(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """What is given counts; either alone is a mistake that would go unnoticed, so it is refused."""
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise ValueError("give rank and world_size together, or neither (then the launcher's environment counts)")
    for names in _LAUNCHERS:
        given = [name for name in names if name in os.environ]
        if len(given) == 1:
            raise ValueError(f"the environment has {given[0]} without the other of {' and '.join(names)}; {_WAYS_OUT}")
        if given:
            rank, world_size = (_number(name) for name in names)
            if rank >= world_size:
                raise ValueError(f"the environment says {names[0]}={rank} and {names[1]}={world_size}; {_WAYS_OUT}")
            return rank, world_size
    return 0, 1


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"the environment says {name}={text!r}, which is not a number; {_WAYS_OUT}")
    return int(text)
