package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newMirrorCommand returns the `registry mirror` command.
func newMirrorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mirror",
		Short: "Fill the caches of upstream registries",
	}
	cmd.AddCommand(newMirrorSyncCommand())
	return cmd
}

func newMirrorSyncCommand() *cobra.Command {
	var asJSON bool
	var platforms []string
	cmd := &cobra.Command{
		Use:   "sync [IMAGE]...",
		Short: "Fetch images from upstreams ahead of time",
		Long: "Fetches the given images or those of proxy.sync.images into the caches, except those already there. " +
			"An IMAGE is a repository of this registry with an optional tag, such as hub/library/alpine:3.20. A registry may serve meanwhile.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onStorage(cmd, commandAct(cmd), func(e *environment) error { return e.syncMirror(cmd, args, platforms, asJSON) })
		},
	}
	command.JSONFlag(cmd, &asJSON)
	cmd.Flags().StringSliceVar(&platforms, "platform", nil, "fetch only these platforms of the given images, such as linux/amd64")
	return cmd
}

func (e *environment) syncMirror(cmd *cobra.Command, given, platforms []string, asJSON bool) error {
	if e.Cache == nil {
		return errors.New("no upstream is configured: set proxy.remoteurl or proxy.upstreams")
	}
	sync := &e.Config.Proxy.Sync
	if len(given) > 0 {
		var err error
		if sync, err = imagesGiven(given, platforms); err != nil {
			return err
		}
	}
	if len(sync.Images) == 0 {
		return errors.New("proxy.sync.images: names no image to fetch")
	}
	leave, err := e.Join(cmd.Context())
	if err != nil {
		return err
	}
	defer leave()
	bar := &syncBar{out: cmd.ErrOrStderr(), on: isTerminal(cmd.ErrOrStderr())}
	report, err := e.Cache.Sync(cmd.Context(), maintenance.SyncImages(sync), bar.show)
	bar.end()
	return errors.Join(err, command.Report(cmd, asJSON, report, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "%s present; fetched %s (%s)\n", plural.Of(report.Images, "image"), plural.Of(report.Blobs, "blob"), bytesize.Text(report.Bytes))
		return err
	}))
}

// imagesGiven returns the images named on the command line.
func imagesGiven(given, platforms []string) (*config.ProxySync, error) {
	s := &config.ProxySync{}
	for _, image := range given {
		repository, tag, ok := strings.Cut(image, ":")
		if _, err := oci.ParseName(repository); err != nil {
			return nil, command.Usage(fmt.Errorf("%q is not an image such as hub/library/alpine:3.20", image))
		}
		one := config.SyncImage{Repository: repository, Platforms: platforms}
		if ok {
			one.Tags = []string{regexp.QuoteMeta(tag)}
		}
		s.Images = append(s.Images, one)
	}
	return s, nil
}

// syncBar shows the progress of a run on a terminal.
type syncBar struct {
	out   io.Writer
	on    bool
	shown time.Time
}

func (b *syncBar) show(p proxy.Progress) {
	if !b.on || time.Since(b.shown) < 100*time.Millisecond {
		return
	}
	b.shown = time.Now()
	const width = 20
	full := 0
	if p.All > 0 {
		full = width * p.Blobs / p.All
	}
	fmt.Fprintf(b.out, "\r\x1b[K[%s%s] %s: %d of %d blobs, %s fetched", strings.Repeat("#", full), strings.Repeat(".", width-full), p.Image, p.Blobs, p.All, bytesize.Text(p.Bytes))
}

func (b *syncBar) end() {
	if b.on && !b.shown.IsZero() {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}
