// The pages that the browsers open: every kind of page that a reader can see, with typical and extreme content.

import { change, publish } from './browsers.mjs';

const WIDE = `    ${'let wide = "a line of code that is wider than any phone"; '.repeat(6)}`;

const EVERYTHING = [
    'A paragraph with **bold**, *italic*, ~~struck~~ text, `code` and [a link](https://elsewhere.example/).',
    '## A heading\n\n- a list\n- of [items](/)\n  1. and\n  2. numbers',
    '> A quote of some length, which is long enough to need a second line on a phone.\n>\n> > And one in it.',
    WIDE,
    '---',
    'A table is its source:\n\n```\n| a | b |\n|---|---|\n```',
    '### Another heading\n\n#### A smaller one\n\nThe end, with a https://bare.example/address/that/is/long/enough/to/need/a/second/line.',
].join('\n\n');

const HEBREW = [
    'הוועדה תפרסם את ממצאיה בשבוע הבא, וכל אחד יוכל לקרוא אותם ולהגיב עליהם בחופשיות.',
    '## כותרת\n\n- רשימה\n- של [פריטים](https://elsewhere.example/)',
    '> ציטוט באורך מסוים, ארוך מספיק כדי להזדקק לשורה שנייה בטלפון.',
    WIDE,
    'And a paragraph in English, which reads the other way.',
].join('\n\n');

const KOREAN = [
    '위원회는 다음 주에 조사 결과를 발표할 예정이며, 누구나 그것을 읽고 의견을 남길 수 있습니다. 이 글은 여러 줄에 걸쳐 이어집니다.',
    '#### 작은 제목\n\n*강조*한 낱말과 **굵은** 낱말.',
].join('\n\n');

/** A block of code with `columns` letters in each line. */
const code = (columns) => `    ${'x'.repeat(columns)}\n    ${'y'.repeat(columns)}`;

/** Publishes all pages. Returns the address of each by its name. */
export async function everyPage(base) {
    const wide = await publish(base, 'A page with everything in it, and a title that takes two lines on a phone', EVERYTHING);
    const hebrew = await publish(base, 'כותרת בעברית', HEBREW);
    const untitled = await publish(base, 'Soon without', 'Some text, and [a link](/).\n\n' + WIDE);
    await change(base, untitled, 'PATCH', { title: null });
    const short = await publish(base, 'Short', 'One line.');
    const korean = await publish(base, '한국어 제목', KOREAN);
    const columns = await publish(base, 'Code of 88 columns', `${code(88)}\n\n- in a list\n\n  ${code(88).replaceAll('\n', '\n  ')}\n\n> ${
        code(300).replaceAll('\n', '\n> ')}`);
    const long = await publish(base, 'A title that says very much more than a title has to say '.repeat(3).trim(), 'Text.');
    const gone = await publish(base, 'Soon gone', 'x');
    await change(base, gone, 'DELETE');
    return {
        home: `${base}/`,
        help: `${base}/help`,
        edit: `${short.address}/edit`,
        pages: `${base}/pages`,
        wide: wide.address,
        hebrew: hebrew.address,
        untitled: untitled.address,
        short: short.address,
        korean: korean.address,
        columns: columns.address,
        long: long.address,
        404: `${base}/never-was-2222bbbb`,
        410: gone.address,
    };
}
