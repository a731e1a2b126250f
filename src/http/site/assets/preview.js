// The preview, made by the server's own renderer.

import { $, ask, say } from './ui.js';

// The one policy that may write HTML, for the one text that the server has sanitised. Published pages run no script at all.
const policy = window.trustedTypes?.createPolicy('preview', { createHTML: (html) => html });

/** A form with the text as it stands. A file's line breaks stay as they are; those of a field would become CR LF. */
export function form(title, content, action) {
    const fields = new FormData();
    if (title.trim()) fields.append('title', title);
    fields.append('content', new Blob([content], { type: 'text/markdown' }), '');
    fields.append('action', action);
    return fields;
}

/** Shows how the text would look. */
export async function preview(title, content) {
    const { body } = await ask('/', { method: 'POST', body: form(title, content, 'preview') });
    $('preview-title').textContent = body.title ?? '';
    $('preview-article').innerHTML = policy ? policy.createHTML(body.article_html) : body.article_html;
    $('preview').hidden = false;
    $('preview-name').focus();
    say('');
}
