// Keys and drafts, kept in this browser's storage. A browser may refuse to store: then `false` says so, and nothing fails.

const KEY = 'handbill:key:';
const DRAFT = 'handbill:draft:';
const SLUG = /^[0-9a-z]+(-[0-9a-z]+)*-[2-9b-df-hj-km-np-tv-z]{8}$/;

/** The form of an edit key. */
export const KEY_FORM = /^hbk_[0-9A-Za-z]{43}$/;

function read(name) {
    try {
        return JSON.parse(localStorage.getItem(name));
    } catch {
        return null;
    }
}

function write(name, value) {
    try {
        const text = JSON.stringify(value);
        localStorage.setItem(name, text);
        return localStorage.getItem(name) === text;
    } catch {
        return false;
    }
}

function remove(name) {
    try {
        localStorage.removeItem(name);
    } catch {
        // Nothing is stored, so nothing needs to be removed.
    }
}

function isPage(page) {
    return page && SLUG.test(page.slug) && KEY_FORM.test(page.edit_key);
}

/** Every page whose key is kept, the newest first. */
export function pages() {
    let names = [];
    try {
        names = Object.keys(localStorage).filter((name) => name.startsWith(KEY));
    } catch {
        // There is no storage.
    }
    const kept = names.map(read).filter(isPage);
    return kept.sort((a, b) => String(b.created_at).localeCompare(String(a.created_at)));
}

/** The kept page `slug`, with its key. */
export function page(slug) {
    const kept = read(KEY + slug);
    return isPage(kept) ? kept : null;
}

/** Keeps `{ slug, url, title, edit_key, created_at }`. Returns whether it is stored. */
export const keep = (kept) => isPage(kept) && write(KEY + kept.slug, kept);

export const forget = (slug) => remove(KEY + slug);

/**
 * Adds the keys of an export that are not here yet, if their pages are at one of `origins`. Returns how many; throws if
 * `text` is no export. The form is that of `handbill keys export`: one JSON object a line.
 */
export function importKeys(text, origins) {
    const kept = text.split('\n').filter((line) => line.trim()).map((line) => {
        const { url, edit_key, title, created_at } = JSON.parse(line);
        const { origin, pathname } = new URL(url);
        const slug = pathname.slice(1);
        return { origin, slug, url, title: title || slug, edit_key, created_at: created_at ?? '' };
    });
    return kept.filter(({ origin, ...added }) => origins.includes(origin) && !page(added.slug) && keep(added)).length;
}

export const exportKeys = () => pages()
    .map(({ url, edit_key, title, created_at }) => `${JSON.stringify({ url, edit_key, title, created_at })}\n`).join('');

/** The draft of the page `slug`, or with '' that of a new page. */
export const draft = (slug) => read(DRAFT + slug);
export const saveDraft = (slug, fields) => write(DRAFT + slug, fields);
export const dropDraft = (slug) => remove(DRAFT + slug);
