"""What names of tables and columns say. Follows "Names" in docs/spec/04-draft.md."""

import re

KEY_WORDS = "id uuid guid key pk fk oid code no nr num number sha".split()
ID_WORDS = "id uuid guid oid pk fk sha".split()
GENERIC_NAMES = KEY_WORDS + "name title date time year month day hour type status value index rank position hash".split()
SELF_NAMES = "parent manager supervisor boss reportsto referredby referrer replyto inreplyto previous prev".split()
SECRET_WORDS = "password passwd pwd secret token apikey salt passphrase pin cvv ssn".split()
BIRTH_WORDS = "birth birthday birthdate dob born".split()
CHANGE_WORDS = """update updated modified modification changed edited refreshed synced last latest mtime lastupdate
    lastupdated lastmodified death died deceased""".split()
FUTURE_WORDS = """due required expected estimated eta planned deadline expires expire expiry expiration until next
    promised renewal maturity""".split()
LATE_WORDS = """end ended ends finish finished close closed complete completed return returned ship shipped shipping
    deliver delivered delivery cancel cancelled canceled delete deleted resolved terminated termination paid left
    retired archived processed approved discontinued""".split()
MEASURELESS_WORDS = """id code number no nr num lat lng lon latitude longitude year quarter month week day weekday hour
    minute zip index tz timezone""".split()
TIME_PARTS = ("created", "date", "time", "at", "timestamp", "on")
IDENTIFIER_ENDINGS = ("id", "uuid", "email", "url", "phone", "hash", "code")
LONGEST_NAME, MOST_WORDS = 99, 16

WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


class Words:
    """A name, cut into words."""

    def __init__(self, name: str) -> None:
        cut = name.encode("utf-8")[:LONGEST_NAME].decode("utf-8", "surrogateescape")
        # The letter after the cut still says whether a word begins before it.
        spaced = WORD_STARTS.sub("\0", name)
        size, kept = 0, ""
        for letter in spaced:
            if letter != "\0":
                size += len(letter.encode("utf-8"))
            if size > LONGEST_NAME:
                break
            kept += letter
        self.list = [_lower(word) for word in re.split("[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+", kept) if word]
        self.list = self.list[:MOST_WORDS]
        self.lower = _lower(cut)

    @property
    def joined(self) -> str:
        return "".join(self.list)

    @property
    def last(self) -> str:
        return self.list[-1] if self.list else ""

    def have(self, words: list[str]) -> bool:
        return any(word in words for word in [*self.list, self.joined])

    def end_in(self, end: list[str]) -> bool:
        """After at least one more word."""
        return len(self.list) > len(end) > 0 and self.list[-len(end) :] == end

    def are_key_of(self, stem: "Words") -> bool:
        return bool(stem.joined) and self.joined.startswith(stem.joined) and self.joined[len(stem.joined) :] in KEY_WORDS

    def are_secret(self) -> bool:
        pairs = set(zip(self.list, self.list[1:]))
        return bool(pairs & {("api", "key"), ("private", "key"), ("access", "key")}) or self.have(SECRET_WORDS)

    def are_self(self) -> bool:
        words = self.list[:-1] if len(self.list) > 1 and self.last in ID_WORDS else self.list
        return "".join(words) in SELF_NAMES

    def sound_like_row_time(self) -> bool:
        return self._are_like_time() or self.last in ("ts", "day")

    def say_time(self) -> bool:
        return self._are_like_time() or self.last in ("ts", "day", "hour", "epoch", "created", "modified")

    def _are_like_time(self) -> bool:
        return self.lower.startswith(TIME_PARTS) or self.lower.endswith(TIME_PARTS)

    def may_be_identifier(self) -> bool:
        return self.lower.endswith(IDENTIFIER_ENDINGS) or self.last in ID_WORDS


def stem_of(table: str) -> Words:
    words = Words(table)
    if len(words.list) > 1 and words.list[0] in ("dim", "fact", "tbl", "stg"):
        words.list = words.list[1:]
    if words.list:
        words.list = [*words.list[:-1], _singular(words.list[-1])]
    return words


def _singular(word: str) -> str:
    size = len(word.encode("utf-8"))
    if size > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if size > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if size > 1 and word.endswith("s") and word[-2] not in "sui":
        return word[:-1]
    return word
