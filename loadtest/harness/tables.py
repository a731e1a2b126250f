"""Markdown tables that a document can include unchanged."""


def table(titles, rows):
    """A table with `titles` and `rows`. The first column is left-aligned, the others right-aligned."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [titles, *rows]) for column in range(len(titles))]

    def line(cells):
        aligned = [cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(cells, widths))]
        return f"| {' | '.join(aligned)} |"

    rule = "|" + "|".join("-" * (width + 2) if at == 0 else "-" * (width + 1) + ":" for at, width in enumerate(widths)) + "|"
    return "\n".join([line(titles), rule, *map(line, rows)])


def number(value, decimals=1):
    return f"{value:.{decimals}f}"
