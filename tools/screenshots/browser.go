package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const (
	width     = 900
	maxHeight = 760
	maxBytes  = 45_000 // a picture; the programs carry some
)

// browser is a tab of Chromium.
type browser struct {
	ctx   context.Context
	close func()
}

func openBrowser(ctx context.Context) (*browser, error) {
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))...)
	ctx, cancel := chromedp.NewContext(ctx)
	b := &browser{ctx: ctx, close: func() { cancel(); stop() }}
	if _, err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		b.close()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	return b, nil
}

func (b *browser) login(base, name, password string) error {
	if _, err := chromedp.Run(b.ctx, chromedp.Navigate(base+"/")); err != nil {
		return err
	}
	if _, err := chromedp.Run(b.ctx, chromedp.SendKeys("#name", name)); err != nil {
		return err
	}
	if _, err := chromedp.Run(b.ctx, chromedp.SendKeys("#password", password+"\r")); err != nil {
		return err
	}
	_, err := chromedp.Run(b.ctx, chromedp.WaitNotPresent("#password"))
	return err
}

// take stores a picture of a page, as high as the page and not higher than maxHeight.
func (b *browser) take(url, scheme, file string) error {
	if err := b.scheme(scheme); err != nil {
		return err
	}
	if err := b.window(maxHeight); err != nil {
		return err
	}
	resp, err := chromedp.Run(b.ctx, chromedp.NavigateResponse(url))
	if err != nil {
		return err
	}
	if resp != nil && resp.Status >= 400 {
		return fmt.Errorf("%s answers %d", url, resp.Status)
	}
	height, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64]("Math.ceil(document.body.getBoundingClientRect().bottom)"))
	if err != nil {
		return err
	}
	if err := b.window(min(height, maxHeight)); err != nil {
		return err
	}
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil || strings.TrimSpace(text) == "" {
		return fmt.Errorf("%s shows nothing: %w", url, err)
	}
	for quality := int64(85); quality > 20; quality -= 10 {
		shot, err := chromedp.Run(b.ctx, call(page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality}))
		if err != nil {
			return err
		}
		if len(shot.Data) <= maxBytes {
			fmt.Printf("%s  %d KB\n", file, len(shot.Data)/1000)
			return os.WriteFile(file, shot.Data, 0o644)
		}
	}
	return fmt.Errorf("the picture is larger than %d bytes", maxBytes)
}

func (b *browser) window(height int64) error {
	_, err := chromedp.Run(b.ctx, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(1.5)))
	return err
}

func (b *browser) scheme(name string) error {
	_, err := chromedp.Run(b.ctx, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}))
	return err
}

// call sends a command of the browser's protocol.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) }
}
