// Command screenshots makes the pictures of README.md: it starts the stack of
// `make run` with data of its own, pushes an image, sends messages, and photographs
// the pages with Chromium, in light and in dark.
//
//	screenshots -bin bin -crane .tools/bin/crane -out docs/pictures
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "bin", "folder of registry, relay and devhomeserver")
	crane := flag.String("crane", ".tools/bin/crane", "the crane that pushes")
	out := flag.String("out", "docs/pictures", "folder of the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := run(ctx, *bin, *crane, *out); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		cancel()
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, crane, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	s, err := startStack(ctx, bin)
	if err != nil {
		return err
	}
	defer s.stop()
	scene, err := s.play(ctx, crane)
	if err != nil {
		return err
	}
	image, err := s.stockRegistry(ctx)
	if err != nil {
		return err
	}
	b, err := openBrowser(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.login(s.relay, "admin", s.secret("admin_password")); err != nil {
		return err
	}
	for _, p := range []picture{
		{"relay-overview", s.relay + "/"},
		{"relay-message", fmt.Sprintf("%s/ui/messages/%d", s.relay, scene.message)},
		{"room", scene.room},
		{"push", scene.push},
		{"registry-repository", "http://" + s.registry + "/ui/repository/" + pictureShop},
		{"registry-image", image},
	} {
		for _, scheme := range []string{"light", "dark"} {
			if err := b.take(p.url, scheme, filepath.Join(out, p.name+"-"+scheme+".webp")); err != nil {
				return fmt.Errorf("%s in %s: %w", p.name, scheme, err)
			}
		}
	}
	return nil
}

// picture is a page and the file, without scheme and ending, that shows it.
type picture struct{ name, url string }
