"""The metrics and labels that a PromQL expression uses, and those of a scrape."""

import re

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

_OPERATORS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


def _parts(expression):
    found = []
    promql_parser.walk(promql_parser.parse(expression), found.append)
    return found


def selectors(expression):
    """Every metric that the expression uses, with its matchers as (label, operator, value)."""
    parts = [part for part in _parts(expression) if isinstance(part, promql_parser.VectorSelector)]
    return [(part.name, [(each.name, _OPERATORS[str(each.op).split(".")[-1]], each.value) for each in part.matchers.matchers]) for part in parts]


def metrics(expression):
    """The names of the metrics that the expression uses."""
    return {name for name, _ in selectors(expression)}


def grouping_labels(expression):
    """The labels that the expression groups or joins by."""
    modifiers = [part.modifier for part in _parts(expression) if getattr(part, "modifier", None)]
    lists = [getattr(modifier, "matching", modifier) for modifier in modifiers]
    joined = [getattr(modifier, "group_labels", None) or [] for modifier in modifiers]
    return {label for each in lists if each for label in each.labels}.union(*joined)


def series(exposition):
    """The series of a scrape, as (name, labels)."""
    return [(sample.name, sample.labels) for family in text_string_to_metric_families(exposition) for sample in family.samples]


def matches(labels, matchers):
    """Whether the matchers select a series with these labels."""
    for label, operator, value in matchers:
        have = labels.get(label, "")
        hit = re.fullmatch(value, have) is not None if "~" in operator else have == value
        if hit == operator.startswith("!"):
            return False
    return True
