// Reads a QR code that no camera has blurred: it takes off the mask and puts the bytes of data together, without correction.

const MASKS = [
    (x, y) => (x + y) % 2 === 0,
    (_, y) => y % 2 === 0,
    (x) => x % 3 === 0,
    (x, y) => (x + y) % 3 === 0,
    (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
    (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
    (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
    (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

// ISO/IEC 18004, tables 9 and E.1, for the level L: blocks, as their number and their bytes of data, and centres of alignment.
const VERSIONS = {
    3: [[[1, 55]], [6, 22]], 4: [[[1, 80]], [6, 26]], 5: [[[1, 108]], [6, 30]], 6: [[[2, 68]], [6, 34]],
    7: [[[2, 78]], [6, 22, 38]], 8: [[[2, 97]], [6, 24, 42]], 9: [[[2, 116]], [6, 26, 46]],
    10: [[[2, 68], [2, 69]], [6, 28, 50]],
};

/** The text of the code that is drawn by `path`, with a quiet zone of four modules in an image of `edge` modules. */
export function decode(path, edge) {
    const size = edge - 8;
    const dark = new Set([...path.matchAll(/M(\d+) (\d+)h1/g)].map(([, x, y]) => `${x - 4},${y - 4}`));
    const get = (x, y) => dark.has(`${x},${y}`);
    const [groups, centres] = VERSIONS[(size - 17) / 4];
    const isFixed = (x, y) => {
        const isFinder = (x < 9 && y < 9) || (x >= size - 8 && y < 9) || (x < 9 && y >= size - 8);
        const isVersion = size > 41 && ((x >= size - 11 && y < 6) || (y >= size - 11 && x < 6));
        const isAligned = centres.some((cx) => centres.some((cy) => {
            const isCorner = [[6, 6], [6, size - 7], [size - 7, 6]].some(([a, b]) => cx === a && cy === b);
            return !isCorner && Math.abs(x - cx) <= 2 && Math.abs(y - cy) <= 2;
        }));
        return isFinder || isVersion || isAligned || x === 6 || y === 6;
    };
    // The mask is in bits 10 to 12 of the format, beside the upper left corner.
    const format = [0, 1, 2, 3, 4].reduce((bits, x) => (bits << 1) | get(x, 8), 0) ^ 0b10101;
    if (format >> 3 !== 1) throw new Error(`the level of correction is ${format >> 3}`);
    const mask = MASKS[format & 7];
    const bits = [];
    for (let right = size - 1, isUp = true; right > 0; right -= 2, isUp = !isUp) {
        if (right === 6) right -= 1;
        for (let step = 0; step < size; step += 1) {
            const y = isUp ? size - 1 - step : step;
            for (const x of [right, right - 1]) if (!isFixed(x, y)) bits.push(Number(get(x, y) !== mask(x, y)));
        }
    }
    const number = (at, count) => bits.slice(at, at + count).reduce((value, bit) => value * 2 + bit, 0);
    const lengths = groups.flatMap(([count, length]) => Array(count).fill(length));
    const blocks = lengths.map(() => []);
    for (let at = 0, byte = 0; at < Math.max(...lengths); at += 1) {
        for (const [block, length] of lengths.entries()) if (at < length) blocks[block].push(number(8 * byte++, 8));
    }
    bits.splice(0, bits.length, ...blocks.flat().flatMap((byte) => byte.toString(2).padStart(8, '0').split('').map(Number)));
    if (number(0, 4) !== 4) throw new Error('it is no code of bytes');
    const counted = size < 57 ? 8 : 16;
    const bytes = Array.from({ length: number(4, counted) }, (_, at) => number(4 + counted + 8 * at, 8));
    return new TextDecoder().decode(new Uint8Array(bytes));
}
