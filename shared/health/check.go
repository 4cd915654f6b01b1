package health

import (
	"context"
	"fmt"
)

// check runs the check once, for no longer than its timeout even if it hangs in a system
// call on a dead disk, which no context ends. While a hung
// check still runs no further one starts, so that they do not pile up.
func (w *watch) check(ctx context.Context) error {
	if w.hung != nil {
		select {
		case <-w.hung: // too late to count
			w.hung = nil
		default:
			return fmt.Errorf("an earlier check still hangs after more than %s", w.Timeout)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	result, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		result <- w.Func(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		w.hung = ended
		return fmt.Errorf("no answer within %s", w.Timeout)
	}
}
