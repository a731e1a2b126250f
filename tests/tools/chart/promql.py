"""Finds the metrics and labels that a PromQL expression uses, as far as these tests need them.

promtool 2 checks an expression but does not show its parts, so this module finds the names. It assumes a valid expression,
since promtool checks that.
"""

import re

_STRING = r'"(?:[^"\\]|\\.)*"'
_SELECTOR = re.compile(rf"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{{((?:{_STRING}|[^{{}}\"])*)\}}")
_MATCHER = re.compile(rf'([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*({_STRING})')
_LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_WORDS = {"and", "or", "unless", "offset", "bool", "inf", "nan"}


def selectors(expression):
    """Every metric that the expression uses, with its matchers as (label, operator, value)."""
    found = []
    for name, inside in _SELECTOR.findall(expression):
        found.append((name, [(label, operator, text[1:-1]) for label, operator, text in _MATCHER.findall(inside)]))
    # Without selectors, groupings, ranges and strings, only functions, keywords and metrics without matchers are left.
    rest = re.sub(_STRING, " ", _LABEL_LIST.sub(" ", _SELECTOR.sub(" ", expression)))
    rest = re.sub(r"\[[^\]]*\]", " ", rest)
    for match in re.finditer(r"[a-zA-Z_:][a-zA-Z0-9_:]*", rest):
        word, after = match[0], rest[match.end() :].lstrip()
        is_function = after.startswith("(") or re.match(r"(by|without)\b", after)
        is_number = rest[: match.start()][-1:].isdigit()
        if not is_function and not is_number and word.lower() not in _WORDS:
            found.append((word, []))
    return found


def metrics(expression):
    """The names of the metrics that the expression uses."""
    return {name for name, _ in selectors(expression)}


def grouping_labels(expression):
    """The labels that the expression groups or joins by."""
    return {label.strip() for inside in _LABEL_LIST.findall(expression) for label in inside.split(",") if label.strip()}


def series(exposition):
    """The series of a scrape, as (name, labels)."""
    found = []
    for line in exposition.splitlines():
        match = re.match(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{((?:{_STRING}|[^}}\"])*)\}})? ", line)
        if match and not line.startswith("#"):
            labels = {label: text[1:-1] for label, _, text in _MATCHER.findall(match[2] or "")}
            found.append((match[1], labels))
    return found


def matches(labels, matchers):
    """Whether the matchers select a series with these labels."""
    for label, operator, value in matchers:
        have = labels.get(label, "")
        hit = re.fullmatch(value, have) is not None if "~" in operator else have == value
        if hit == operator.startswith("!"):
            return False
    return True
