package service

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/lease"
	"slipway/relay/internal/store"
)

const (
	beginAgain  = 2 * time.Second // after a failure to begin
	giveBackFor = 8 * time.Second // then the lease expires by itself
)

// publishedCondition returns the condition that the delivering relay published with the lease.
func publishedCondition(l *lease.Lease) (c delivery.Condition) {
	seen := l.Deliverer()
	if seen == nil {
		return delivery.Condition{Paused: "No relay delivers at this moment; another one takes over within seconds."}
	}
	if json.Unmarshal([]byte(seen.Status), &c) != nil { // it has said nothing yet
		return delivery.Condition{}
	}
	return c
}

// showDeliverer adds the delivering relay to a status.
func showDeliverer(l *lease.Lease, st *delivery.Status) {
	if seen := l.Deliverer(); seen != nil {
		st.Deliverer, st.Since, st.Elsewhere = seen.Holder, seen.Since, !seen.Mine
	}
}

// follow keeps the bot's session while another relay delivers, until ctx is done.
func (s *Service) follow(ctx context.Context) {
	if s.o.Bot != nil {
		s.o.Bot.Follow(ctx)
	}
}

// term delivers until ctx is done or the lease is lost.
func (s *Service) term(ctx context.Context) {
	term, end := context.WithCancel(ctx)
	defer end()
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var keep sync.WaitGroup
	keep.Go(func() { // from the start: to read a large outbox may take longer than the lease lasts
		s.lease.Keep(keeping, s.published)
		if keeping.Err() == nil {
			s.log.Warn("lost the lease: this relay has stopped delivering")
			s.delivery.Store(nil)
			end()
		}
	})
	var err error
	if s.delivery.Load() == nil {
		err = s.begin(term, s.lease.Valid)
	}
	d := s.delivery.Load()
	if err == nil && d != nil {
		s.log.Info("this relay delivers", zap.Int64("epoch", s.lease.Seen().Epoch))
		s.deliver(term, d)
	}
	held := s.lease.Valid()
	stop()
	keep.Wait() // from here on the lease is not valid here
	s.delivery.Store(nil)
	if held {
		s.giveBack(d)
	}
	s.store.Forget()
	if err != nil && term.Err() == nil {
		s.log.Error("cannot start to deliver", zap.Error(err))
		select { // let another relay try
		case <-ctx.Done():
		case <-time.After(beginAgain):
		}
	}
}

// published is the condition of the delivery here as it is published with the lease; "" before it has begun.
func (s *Service) published() string {
	d := s.delivery.Load()
	if d == nil {
		return ""
	}
	text, _ := json.Marshal(d.Condition()) // strings and numbers always encode
	return string(text)
}

// giveBack releases the lease. If d isn't nil, the shutdown was clean and no entry is in doubt.
func (s *Service) giveBack(d *delivery.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackFor)
	defer cancel()
	err := s.store.Settle(ctx)
	if err == nil {
		err = s.store.Release(ctx, func(tx *store.Tx) error {
			if d == nil {
				return nil
			}
			return tx.SetSetting(cleanKey, "1")
		})
	}
	if err != nil {
		s.log.Warn("cannot release the lease; it expires by itself", zap.Error(err))
	}
}
