// Two texts line by line: which lines are in both, and which in one of them.

/** More pairs of lines than this are not compared one by one. */
const MOST_PAIRS = 4_000_000;

/** This many lines around a change are shown. */
const AROUND = 2;

/** The rows of `a` beside `b`: `[line of a or null, line of b or null, whether they are equal]`. */
export function rows(a, b) {
    const [left, right] = [a.split('\n'), b.split('\n')];
    let start = 0;
    while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
    let tail = 0;
    while (tail < left.length - start && tail < right.length - start && left.at(-1 - tail) === right.at(-1 - tail)) tail += 1;
    const same = (lines) => lines.map((line) => [line, line, true]);
    return [
        ...same(left.slice(0, start)),
        ...changed(left.slice(start, left.length - tail), right.slice(start, right.length - tail)),
        ...same(left.slice(left.length - tail)),
    ];
}

/** Puts lines of one text beside those of the other that replace them. */
function pair(left, right) {
    return Array.from({ length: Math.max(left.length, right.length) }, (_, at) => [left[at] ?? null, right[at] ?? null, false]);
}

function changed(left, right) {
    if (left.length * right.length > MOST_PAIRS) return pair(left, right);
    // The length of the longest common part of each two ends.
    const width = right.length + 1;
    const common = new Uint32Array((left.length + 1) * width);
    for (let i = left.length - 1; i >= 0; i -= 1) {
        for (let j = right.length - 1; j >= 0; j -= 1) {
            common[i * width + j] = left[i] === right[j]
                ? common[(i + 1) * width + j + 1] + 1
                : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
        }
    }
    const made = [];
    let [i, j, fromI, fromJ] = [0, 0, 0, 0];
    const flush = () => made.push(...pair(left.slice(fromI, i), right.slice(fromJ, j)));
    while (i < left.length && j < right.length) {
        if (left[i] === right[j]) {
            flush();
            made.push([left[i], right[j], true]);
            i += 1;
            j += 1;
            [fromI, fromJ] = [i, j];
        } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            i += 1;
        } else {
            j += 1;
        }
    }
    [i, j] = [left.length, right.length];
    flush();
    return made;
}

/** Fills `box` with both texts side by side. Lines that differ are marked; long parts in common are left out. */
export function compare(box, [leftName, left], [rightName, right]) {
    const all = rows(left, right);
    const isNear = all.map((_, at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(([, , equal]) => !equal));
    const cell = (name, text, className = '') => {
        const made = document.createElement(name);
        made.textContent = text;
        made.className = className;
        return made;
    };
    const cells = [cell('strong', leftName, 'side'), cell('strong', rightName, 'side second')];
    let skipped = 0;
    const skip = () => {
        if (skipped) cells.push(cell('span', `${skipped} unchanged ${skipped === 1 ? 'line' : 'lines'}`, 'skip'));
        skipped = 0;
    };
    for (const [at, [a, b, isEqual]] of all.entries()) {
        if (!isNear[at]) {
            skipped += 1;
            continue;
        }
        skip();
        cells.push(cell(isEqual || a === null ? 'span' : 'del', a ?? ''), cell(isEqual || b === null ? 'span' : 'ins', b ?? '', 'second'));
    }
    skip();
    box.replaceChildren(...cells);
}
