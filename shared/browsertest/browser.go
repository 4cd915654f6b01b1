// Package browsertest drives a tab of a real Chromium in tests of pages.
package browsertest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Browser is a tab of a real Chromium. Its methods end the test when something fails.
type Browser struct {
	testing.TB
	ctx  context.Context
	base string
}

// chromium is held by the test that has a browser: one at a time is enough for a small machine.
var chromium sync.Mutex

// New starts a browser for the pages at base, which ends with the test.
func New(t testing.TB, base string) *Browser {
	t.Helper()
	chromium.Lock()
	t.Cleanup(chromium.Unlock)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &Browser{TB: t, ctx: ctx, base: base}
	b.Window(1280, 800, "light")
	return b
}

// In runs an action of the browser.
func In[T any](b *Browser, action chromedp.Action[T]) T {
	b.Helper()
	v, err := run(b, action)
	if err != nil {
		b.Fatalf("the browser: %v", err)
	}
	return v
}

func run[T any](b *Browser, action chromedp.Action[T]) (T, error) {
	ctx := b.ctx
	if chromedp.FromContext(ctx).Target != nil { // the first action starts the browser, whose life must not be bounded
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
	}
	return chromedp.Run(ctx, action)
}

// Call is an action that sends a command of the browser's protocol.
func Call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) }
}

// Window sets the size and whether the reader prefers "light" or "dark".
func (b *Browser) Window(width, height int64, scheme string) {
	b.Helper()
	In(b, chromedp.EmulateViewport(width, height))
	In(b, Call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// WithoutScript makes the browser run no script of pages.
func (b *Browser) WithoutScript() {
	b.Helper()
	In(b, Call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
}

// Forget removes all cookies.
func (b *Browser) Forget() {
	b.Helper()
	In(b, Call(network.ClearBrowserCookies, cdp.Empty{}))
}

// Get loads a page.
func (b *Browser) Get(path string) {
	b.Helper()
	In(b, chromedp.Navigate(b.base+path))
}

// Fill types into a field in place of what it holds.
func (b *Browser) Fill(field, text string) {
	b.Helper()
	In(b, chromedp.Clear(field))
	In(b, chromedp.SendKeys(field, text))
}

// Click clicks the first element that the selector finds.
func (b *Browser) Click(what string) {
	b.Helper()
	In(b, chromedp.Click(what))
}

// Text returns the visible text of the page.
func (b *Browser) Text() string {
	b.Helper()
	return In(b, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
}

// Sees waits until the page has loaded and shows something.
func (b *Browser) Sees(what string) {
	b.Helper()
	var page string
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		// While a page loads, an element that the next action has found may be gone. Chromium refuses what is asked while the page is replaced.
		page, err = run(b, chromedp.Evaluate[string](`document.readyState === "complete" && document.body ? document.body.innerText : ""`))
		if err == nil && strings.Contains(page, what) {
			return
		}
	}
	b.Fatalf("the page never shows %q (%v):\n%s", what, err, page)
}

// Faults looks at the page as tools for accessibility do and returns what is wrong with it.
func (b *Browser) Faults() []string {
	b.Helper()
	return In(b, chromedp.Evaluate[[]string](faultsScript))
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
	for (const e of document.querySelectorAll("a, button")) if (!(e.closest("details:not([open])") ? e.textContent : e.innerText).trim() && !e.getAttribute("aria-label")) wrong.push("nameless " + e.outerHTML);
	if (!document.querySelector("article") && root.scrollHeight > 10 * innerHeight) wrong.push("the page is " + root.scrollHeight + " high in a window of " + innerHeight);
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
