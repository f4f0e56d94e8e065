"""Writes src/store/cyclic_tables.h, for clang-format to lay out: sin and cos of 2 pi k / n, the exact value rounded
once to binary32. The twelve months are every second of the 24 hours.

Sixty decimal digits are far more than the 24 bits need (no value lies that near to a rounding boundary), and the
values that are rational (0, 1/2, 1) are set exactly.
"""
from decimal import Decimal, getcontext
from fractions import Fraction
import struct

getcontext().prec = 60
PERIODS = [("second", 60), ("hour", 24), ("weekday", 7), ("day", 31), ("year_day", 366)]


def pi():
    def arctan_inverse(x):
        term = total = Decimal(1) / x
        n, sign = 3, -1
        while abs(term) > Decimal(10) ** -58:
            term /= x * x
            total += sign * term / n
            n, sign = n + 2, -sign
        return total
    return 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


def sine(x):
    term = total = x
    n = 1
    while abs(term) > Decimal(10) ** -58:
        term *= -x * x / ((n + 1) * (n + 2))
        total += term
        n += 2
    return total


def exact_sine(turn):
    """sin(2 pi turn) of a Fraction in [0, 1), as a Fraction."""
    if turn >= Fraction(1, 2):
        return -exact_sine(turn - Fraction(1, 2))
    if turn > Fraction(1, 4):
        turn = Fraction(1, 2) - turn
    known = {Fraction(0): Fraction(0), Fraction(1, 12): Fraction(1, 2), Fraction(1, 4): Fraction(1)}
    if turn in known:
        return known[turn]
    return Fraction(sine(2 * PI * turn.numerator / turn.denominator))


def to_float(value):
    """A Fraction rounded once to binary32, ties to even."""
    if value == 0:
        return 0.0
    magnitude, exponent = abs(value), 0
    while magnitude < 1:
        magnitude, exponent = magnitude * 2, exponent - 1
    scaled = magnitude * 2 ** 23
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
        whole += 1
    return float(whole) * 2.0 ** (exponent - 23) * (1 if value > 0 else -1)


def hex_float(value):
    assert struct.unpack("<f", struct.pack("<f", value))[0] == value
    digits, exponent = float.hex(value).split("p")
    return "%sp%sf" % (digits.rstrip("0").rstrip("."), exponent) if value else "0x0p+0f"


def main():
    print("/* Made by tools/make_cyclic_tables.py: (sin, cos) of 2 pi k / n, the exact value rounded once to binary32. */")
    for name, period in PERIODS:
        print(f"static const float {name}_table[2 * {period}] = {{")
        for k in range(period):
            turn = Fraction(k, period)
            pair = (to_float(exact_sine(turn)), to_float(exact_sine((turn + Fraction(1, 4)) % 1)))
            print("    %s, %s," % (hex_float(pair[0]), hex_float(pair[1])))
        print("};")


PI = pi()
if __name__ == "__main__":
    main()
