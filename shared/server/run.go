package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/shared/plural"
)

// cutTime is the time in which handlers must notice that their connection is gone.
const cutTime = 5 * time.Second

// Run serves on all servers until ctx ends or one of them fails; then all stop
// accepting and have the time drain to finish the requests they are in. With
// no drain time they are cut immediately. Run returns when everything has ended:
// nil after a clean end, an error when a server failed or when requests were
// cut because drain was over.
func Run(ctx context.Context, drain time.Duration, servers ...*Server) error {
	failed := make(chan error, len(servers))
	var serving sync.WaitGroup
	for _, s := range servers {
		serving.Go(func() {
			if err := s.serve(); err != nil {
				failed <- err
			}
		})
	}
	var errs []error
	select {
	case <-ctx.Done():
	case err := <-failed:
		errs = append(errs, err)
	}
	errs = append(errs, stopAll(drain, servers)...)
	serving.Wait()
	return errors.Join(errs...)
}

func stopAll(drain time.Duration, servers []*Server) []error {
	errs := make([]error, len(servers))
	var stopping sync.WaitGroup
	for i, s := range servers {
		stopping.Go(func() { errs[i] = s.stop(drain) })
	}
	stopping.Wait()
	return errs
}

// stop drains the server and cuts what is left.
func (s *Server) stop(drain time.Duration) error {
	if drain > 0 {
		s.log.Info("stopping server gracefully; draining connections",
			zap.String("server", s.name), zap.Duration("for", drain), zap.Int64("requests", s.requests.Load()))
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		if err := s.http.Shutdown(ctx); err == nil {
			return s.Close() // nothing is left but a listener that never served
		}
	}
	running := s.requests.Load()
	_ = s.Close()
	s.waitForHandlers()
	if drain > 0 && running > 0 {
		return fmt.Errorf("%s server: cut %s still running after %s", s.name, plural.Of(running, "request"), drain)
	}
	return nil
}

// waitForHandlers lets cut requests clean up before the service takes away what
// they stand on.
func (s *Server) waitForHandlers() {
	const step = 10 * time.Millisecond
	for waited := time.Duration(0); s.requests.Load() > 0 && waited < cutTime; waited += step {
		time.Sleep(step)
	}
}
