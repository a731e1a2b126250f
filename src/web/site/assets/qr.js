// A QR code (ISO/IEC 18004) of a short text: bytes, the lowest level of error correction, versions 1 to 20.

/** For each version: the bytes of error correction in a block, and the number of blocks. */
const CORRECTION = [
    null, [7, 1], [10, 1], [15, 1], [20, 1], [26, 1], [18, 2], [20, 2], [24, 2], [30, 2], [18, 4],
    [20, 4], [24, 4], [26, 4], [30, 4], [22, 6], [24, 6], [28, 6], [30, 6], [28, 7], [28, 8],
];

/** The number of modules that hold data. */
function room(version) {
    const aligned = version > 1 ? Math.floor(version / 7) + 2 : 0;
    const patterns = aligned ? (25 * aligned - 10) * aligned - 55 : 0;
    return (16 * version + 128) * version + 64 - patterns - (version > 6 ? 36 : 0);
}

const size = (version) => 17 + 4 * version;

/** Multiplies in the field of 256 elements. */
function times(a, b) {
    let product = 0;
    for (let bit = 7; bit >= 0; bit -= 1) {
        product = (product << 1) ^ ((product >> 7) * 0x11d);
        product ^= ((b >> bit) & 1) * a;
    }
    return product;
}

/** The polynomial that makes `degree` bytes of error correction. */
function generator(degree) {
    const made = Array(degree).fill(0);
    made[degree - 1] = 1;
    let root = 1;
    for (let step = 0; step < degree; step += 1) {
        for (let at = 0; at < degree; at += 1) made[at] = times(made[at], root) ^ (made[at + 1] ?? 0);
        root = times(root, 2);
    }
    return made;
}

function correction(data, polynomial) {
    const rest = Array(polynomial.length).fill(0);
    for (const byte of data) {
        const factor = byte ^ rest.shift();
        rest.push(0);
        polynomial.forEach((part, at) => { rest[at] ^= times(part, factor); });
    }
    return rest;
}

/** The bytes of the code, and its version. */
function codewords(text) {
    const bytes = [...new TextEncoder().encode(text)];
    const lengthBits = (version) => (version < 10 ? 8 : 16);
    const capacity = (version) => Math.floor(room(version) / 8) - CORRECTION[version][0] * CORRECTION[version][1];
    const version = CORRECTION.findIndex((entry, version) => entry && 4 + lengthBits(version) + 8 * bytes.length <= 8 * capacity(version));
    if (version < 0) return null;
    const bits = [];
    const put = (value, count) => { for (let bit = count - 1; bit >= 0; bit -= 1) bits.push((value >> bit) & 1); };
    put(4, 4);
    put(bytes.length, lengthBits(version));
    for (const byte of bytes) put(byte, 8);
    put(0, Math.min(4, 8 * capacity(version) - bits.length));
    put(0, -bits.length & 7);
    for (let filler = 0xec; bits.length < 8 * capacity(version); filler ^= 0xec ^ 0x11) put(filler, 8);
    const data = Array.from({ length: bits.length / 8 }, (_, at) => parseInt(bits.slice(8 * at, 8 * at + 8).join(''), 2));

    // The first blocks may be one byte shorter than the last.
    const [corrected, count] = CORRECTION[version];
    const polynomial = generator(corrected);
    const total = Math.floor(room(version) / 8);
    const short = Math.floor(total / count) - corrected;
    const blocks = [];
    for (let block = 0, at = 0; block < count; block += 1) {
        const length = short + (block < count - (total % count) ? 0 : 1);
        const part = data.slice(at, at + length);
        at += length;
        blocks.push([part, correction(part, polynomial)]);
    }
    const woven = [];
    for (let at = 0; at <= short; at += 1) for (const [part] of blocks) if (at < part.length) woven.push(part[at]);
    for (let at = 0; at < corrected; at += 1) for (const [, part] of blocks) woven.push(part[at]);
    return { version, woven };
}

const MASKS = [
    (x, y) => (x + y) % 2,
    (x, y) => y % 2,
    (x) => x % 3,
    (x, y) => (x + y) % 3,
    (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2,
    (x, y) => ((x * y) % 2) + ((x * y) % 3),
    (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2,
    (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
];

/** How hard the code is to read, by the rules of the standard. */
function penalty(modules) {
    const edge = modules.length;
    let sum = 0;
    for (const get of [(a, b) => modules[a][b], (a, b) => modules[b][a]]) {
        for (let line = 0; line < edge; line += 1) {
            const text = Array.from({ length: edge }, (_, at) => Number(get(line, at))).join('');
            for (const [run] of text.matchAll(/0{5,}|1{5,}/g)) sum += run.length - 2;
            for (const like of ['10111010000', '00001011101']) {
                for (let at = text.indexOf(like); at >= 0; at = text.indexOf(like, at + 1)) sum += 40;
            }
        }
    }
    let dark = 0;
    for (let y = 0; y < edge; y += 1) {
        for (let x = 0; x < edge; x += 1) {
            dark += modules[y][x];
            const square = [modules[y][x], modules[y][x + 1], modules[y + 1]?.[x], modules[y + 1]?.[x + 1]];
            if (square.every((module) => module === square[0])) sum += 3;
        }
    }
    return sum + 10 * Math.floor(Math.abs((100 * dark) / edge ** 2 - 50) / 5);
}

/** The bits of `value` with the remainder by which they are checked. */
function checked(value, polynomial, degree) {
    let rest = value;
    for (let step = 0; step < degree; step += 1) rest = (rest << 1) ^ ((rest >> (degree - 1)) * polynomial);
    return (value << degree) | rest;
}

/** The modules of the code of `text`, row by row, 1 for dark; `null` if the text is too long. */
export function modules(text) {
    const code = codewords(text);
    if (!code) return null;
    const { version, woven } = code;
    const edge = size(version);
    const grid = Array.from({ length: edge }, () => Array(edge).fill(0));
    const fixed = Array.from({ length: edge }, () => Array(edge).fill(false));
    const set = (x, y, dark) => {
        if (x < 0 || y < 0 || x >= edge || y >= edge) return;
        grid[y][x] = Number(dark);
        fixed[y][x] = true;
    };
    for (let at = 0; at < edge; at += 1) {
        set(6, at, at % 2 === 0);
        set(at, 6, at % 2 === 0);
    }
    for (const [left, top] of [[3, 3], [edge - 4, 3], [3, edge - 4]]) {
        for (let y = -4; y <= 4; y += 1) {
            for (let x = -4; x <= 4; x += 1) {
                const ring = Math.max(Math.abs(x), Math.abs(y));
                set(left + x, top + y, ring !== 2 && ring !== 4);
            }
        }
    }
    const count = version > 1 ? Math.floor(version / 7) + 2 : 0;
    const step = Math.ceil((4 * version + 4) / (2 * count - 2)) * 2;
    const centres = Array.from({ length: count }, (_, at) => (at === 0 ? 6 : edge - 7 - (count - 1 - at) * step));
    for (const [i, y] of centres.entries()) {
        for (const [j, x] of centres.entries()) {
            const isCorner = (i === 0 && (j === 0 || j === count - 1)) || (i === count - 1 && j === 0);
            if (isCorner) continue;
            for (let dy = -2; dy <= 2; dy += 1) {
                for (let dx = -2; dx <= 2; dx += 1) set(x + dx, y + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
            }
        }
    }
    const describe = (mask) => {
        const bits = checked((1 << 3) | mask, 0x537, 10) ^ 0x5412;
        const bit = (at) => (bits >> at) & 1;
        for (let at = 0; at <= 5; at += 1) set(8, at, bit(at));
        set(8, 7, bit(6));
        set(8, 8, bit(7));
        set(7, 8, bit(8));
        for (let at = 9; at < 15; at += 1) set(14 - at, 8, bit(at));
        for (let at = 0; at < 8; at += 1) set(edge - 1 - at, 8, bit(at));
        for (let at = 8; at < 15; at += 1) set(8, edge - 15 + at, bit(at));
        set(8, edge - 8, true);
    };
    describe(0);
    if (version > 6) {
        const bits = checked(version, 0x1f25, 12);
        for (let at = 0; at < 18; at += 1) {
            const [a, b] = [edge - 11 + (at % 3), Math.floor(at / 3)];
            set(a, b, (bits >> at) & 1);
            set(b, a, (bits >> at) & 1);
        }
    }
    // The data goes up and down in pairs of columns from the right.
    let at = 0;
    for (let right = edge - 1; right >= 1; right -= 2) {
        if (right === 6) right = 5;
        for (let step = 0; step < edge; step += 1) {
            const isUp = ((right + 1) & 2) === 0;
            const y = isUp ? edge - 1 - step : step;
            for (const x of [right, right - 1]) {
                if (fixed[y][x]) continue;
                grid[y][x] = at < 8 * woven.length ? (woven[at >> 3] >> (7 - (at & 7))) & 1 : 0;
                at += 1;
            }
        }
    }
    const masked = (mask) => {
        describe(mask);
        return grid.map((row, y) => row.map((dark, x) => (fixed[y][x] ? dark : dark ^ Number(MASKS[mask](x, y) === 0))));
    };
    return MASKS.map((_, mask) => masked(mask)).reduce((best, next) => (penalty(next) < penalty(best) ? next : best));
}

const SVG = 'http://www.w3.org/2000/svg';

/** The code of `text` as an image; `null` if the text is too long. */
export function qr(text, label) {
    const grid = modules(text);
    if (!grid) return null;
    const image = document.createElementNS(SVG, 'svg');
    const edge = grid.length + 8;
    image.setAttribute('viewBox', `0 0 ${edge} ${edge}`);
    image.setAttribute('class', 'code');
    image.setAttribute('role', 'img');
    image.setAttribute('aria-label', label);
    image.setAttribute('shape-rendering', 'crispEdges');
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('d', grid.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x + 4} ${y + 4}h1v1h-1z` : ''))).join(''));
    image.append(path);
    return image;
}
