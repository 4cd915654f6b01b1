package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a real Chromium.
type browser struct {
	*testing.T
	ctx  context.Context
	base string
}

var chromium struct {
	sync.Mutex // one browser at a time is enough for a small machine
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	chromium.Lock()
	t.Cleanup(chromium.Unlock)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx, base: base}
	b.window(1280, 800, "light")
	return b
}

// in runs an action of the browser and wants it to succeed.
func in[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx := b.ctx
	if chromedp.FromContext(ctx).Target != nil { // the first action starts the browser, whose life must not be bounded
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatalf("the browser: %v", err)
	}
	return v
}

// call sends a command of the browser's protocol.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) }
}

// window sets the size and whether the reader prefers light or dark.
func (b *browser) window(width, height int64, scheme string) {
	b.Helper()
	in(b, chromedp.EmulateViewport(width, height))
	in(b, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

func (b *browser) get(path string) {
	b.Helper()
	in(b, chromedp.Navigate(b.base+path))
}

// fill types into a field in place of what it holds.
func (b *browser) fill(field, text string) {
	b.Helper()
	in(b, chromedp.Clear(field))
	in(b, chromedp.SendKeys(field, text))
}

func (b *browser) click(what string) {
	b.Helper()
	in(b, chromedp.Click(what))
}

// text is what a reader sees of the page.
func (b *browser) text() string {
	b.Helper()
	return in(b, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
}

// sees waits until the page shows something.
func (b *browser) sees(what string) {
	b.Helper()
	var page string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if page = b.text(); strings.Contains(page, what) {
			return
		}
	}
	b.Fatalf("the page never shows %q:\n%s", what, page)
}

// reloads loads a page again and again until it shows something.
func (b *browser) reloads(path, what string) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if b.get(path); strings.Contains(b.text(), what) {
			return
		}
	}
	b.Fatalf("%s never shows %q:\n%s", path, what, b.text())
}

func (b *browser) login(name, password string) {
	b.Helper()
	b.get("/")
	b.sees("Log in")
	b.fill("#name", name)
	in(b, chromedp.SendKeys("#password", password+"\r")) // Enter sends the form
	b.sees("Overview")
}

// faults looks at the page as tools for accessibility do and returns what is
// wrong with it.
func (b *browser) faults() []string {
	b.Helper()
	return in(b, chromedp.Evaluate[[]string](faultsScript))
}

// faultsScript finds what overflows, covers something or is stretched, fields
// without name, too little contrast (WCAG 2, 1.4.3) and pages without structure.
const faultsScript = `(() => {
	const wrong = [];
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) wrong.push("the page is " + root.scrollWidth + " wide in a window of " + root.clientWidth);
	if (!root.lang) wrong.push("no language");
	if (document.querySelectorAll("h1").length !== 1) wrong.push(document.querySelectorAll("h1").length + " h1");
	if (document.querySelectorAll("main").length !== 1) wrong.push("no main");
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("id " + id + " twice");
	for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
		for (const id of ((e.getAttribute("aria-labelledby") || "") + " " + (e.getAttribute("aria-describedby") || "")).trim().split(/\s+/))
			if (!document.getElementById(id)) wrong.push("nothing has the id " + id);
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
		if (!e.labels.length && !e.getAttribute("aria-label")) wrong.push("field " + e.name + " has no label");
	for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) wrong.push("image without alt");
	for (const e of document.querySelectorAll("a, button")) if (!e.innerText.trim() && !e.getAttribute("aria-label")) wrong.push("nameless " + e.outerHTML);
	if (root.scrollHeight > 10 * innerHeight) wrong.push("the page is " + root.scrollHeight + " high in a window of " + innerHeight);
	const textBox = e => {
		const range = document.createRange();
		range.selectNodeContents(e);
		return range.getBoundingClientRect();
	};
	for (const e of document.querySelectorAll(".state, .priority"))
		if (e.offsetWidth - textBox(e).width > 60) wrong.push("badge " + JSON.stringify(e.innerText) + " is " + e.offsetWidth + " wide");
	for (const text of document.querySelectorAll("svg text"))
		for (const bar of document.querySelectorAll("svg rect")) {
			const [t, b] = [text.getBoundingClientRect(), bar.getBoundingClientRect()];
			if (t.left < b.right && b.left < t.right && t.top < b.bottom && b.top < t.bottom) wrong.push("a bar hides the label " + JSON.stringify(text.textContent));
		}
	for (const e of document.querySelectorAll("[style], script:not([src])")) wrong.push("inline " + e.outerHTML.slice(0, 80));
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const parse = colour => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return [r, g, b, a / 255];
	};
	const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] > 0.99) return c;
		}
		return parse("Canvas");
	};
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walker.nextNode(); n; n = walker.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || e.closest("svg, option, .hidden, .skip") || !e.checkVisibility()) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) wrong.push("contrast " + ratio.toFixed(2) + " of " + JSON.stringify(n.data.trim().slice(0, 40)));
	}
	return wrong;
})()`
