package main

import "encoding/json"

// The behaviour of one page when nobody else uses it, written a second time: the other checker's is in
// tests/services/linearizability/histories/page.rs.

// A call of a client. A field that is not sent is nil; a title that is cleared is null.
type call struct {
	Kind    string
	Title   json.RawMessage
	Content *string
	IfMatch *uint64 `json:"if_match"`
}

// An answer. An operator is told an outcome, which has a code.
type answer struct {
	Kind    string
	Version uint64
	Title   *string
	Content string
	Code    string
}

// A page that was never created is the zero value. A title that is absent is empty; no call sends an empty one.
type page struct {
	exists, isDeleted, isHidden bool
	version                     uint64
	title, content              string
}

// canBe says whether a client that was told this may be one to whom the page says `expected`.
func (said answer) canBe(expected answer) bool {
	if said.Kind != expected.Kind {
		return false
	}
	switch said.Kind {
	case "created":
		return said.Version == expected.Version
	case "page":
		return said.Version == expected.Version && text(said.Title) == text(expected.Title) && said.Content == expected.Content
	case "outcome":
		// "Not in ledger" says that it was done, now or before.
		return said.Code == expected.Code || said.Code == "not_in_ledger" && expected.Code != "not_found"
	}
	return true
}

// answer gives the answer to a call, and the page after it.
func (p page) answer(c call) (answer, page) {
	switch c.Kind {
	case "create":
		return p.create(c)
	case "hide", "show", "take_down":
		return p.operate(c.Kind)
	}
	if !p.exists {
		return answer{Kind: "not_found"}, p
	}
	if p.isDeleted || p.isHidden {
		return answer{Kind: "gone"}, p
	}
	if c.IfMatch != nil && *c.IfMatch != p.version {
		return answer{Kind: "precondition_failed"}, p
	}
	if c.Kind == "delete" {
		return answer{Kind: "deleted"}, page{exists: true, isDeleted: true}
	}
	if c.Title != nil {
		var title *string
		check(json.Unmarshal(c.Title, &title))
		p.title = text(title)
	}
	if c.Content != nil {
		p.content = *c.Content
	}
	if c.Title != nil || c.Content != nil {
		p.version++
	}
	return answer{Kind: "page", Version: p.version, Title: &p.title, Content: p.content}, p
}

// create publishes the page. Sent again, it finds the page as long as that has the same content and can be read.
func (p page) create(c call) (answer, page) {
	if p.exists && (p.isDeleted || p.isHidden || p.content != *c.Content) {
		return answer{Kind: "key_in_use"}, p
	}
	if !p.exists {
		var title string
		check(json.Unmarshal(c.Title, &title))
		p = page{exists: true, version: 1, title: title, content: *c.Content}
	}
	return answer{Kind: "created", Version: p.version}, p
}

// operate does what an operator asks for. To hide or to show a page is a change of it.
func (p page) operate(act string) (answer, page) {
	code := ""
	switch {
	case !p.exists:
		code = "not_found"
	case p.isDeleted:
		code = "already_deleted"
	case act == "take_down":
		p, code = page{exists: true, isDeleted: true}, "taken_down"
	case p.isHidden == (act == "hide"):
		code = map[bool]string{true: "already_hidden", false: "already_shown"}[p.isHidden]
	case act == "hide":
		p.isHidden, code = true, "hidden"
		p.version++
	default:
		p.isHidden, code = false, "shown"
		p.version++
	}
	return answer{Kind: "outcome", Code: code}, p
}

func text(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
