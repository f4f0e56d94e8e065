"""What tools/check and tools/check-ecosystem share: what was skipped inside a test program that passed, and how that is told."""

import re

Skipped = tuple[str, str]  # (which test, why)


def skipped_inside(output: str) -> list[Skipped]:
    """The tests that a test program skipped, by the words of Python's unittest (with -v) and of cmocka."""
    found = []
    for match in re.finditer(r"^(?:(\w+) \(.*\)\n)?(?:(\w+) \(.*\))?.* \.\.\. skipped (['\"])(.*)\3$", output, re.M):
        found.append((match[2] or match[1] or "", match[4]))
    why = {}
    for match in re.finditer(r"^skipped: (.*)\n\[  SKIPPED \] (\w+)$", output, re.M):
        why[match[2]] = match[1]
    names = re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)$", output, re.M)
    return found + [(name, why.get(name, "its source says why")) for name in dict.fromkeys(names)]


def print_skipped(skipped: dict[str, list[Skipped]]) -> None:
    """`skipped`: of each phase or environment. One paragraph for each reason."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for name, tests in skipped.items():
        for test, why in tests:
            reasons.setdefault(why, {}).setdefault(test, []).append(name)
    if reasons:
        print("\nskipped:")
    for why, tests_of in sorted(reasons.items()):
        print(f"  {why}")
        for test, names in sorted(tests_of.items()):
            print(f"    {test} ({', '.join(dict.fromkeys(names))})")
