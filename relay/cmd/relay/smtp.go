package main

import (
	"context"
	"crypto/tls"

	"go.uber.org/zap"

	"slipway/relay/internal/config"
	"slipway/relay/internal/smtp"
	"slipway/shared/server"
)

// listenSMTP starts the SMTP server if one is configured. stop drains and closes it.
func listenSMTP(ctx context.Context, cfg *config.Config, log *zap.Logger, p *parts) (stop func() error, err error) {
	address := cfg.SMTP.ListenAddress
	if address == "" {
		return func() error { return nil }, nil
	}
	o := smtp.Options{
		Service: p.service, Log: log, Domain: cfg.SMTP.Domain, MaxText: int(cfg.Limits.Message), ImplicitTLS: cfg.SMTP.ImplicitTLS, Plaintext: cfg.SMTP.Plaintext,
	}
	if cfg.HTTP.CertFile != "" {
		o.Certificate = func() (*tls.Certificate, error) { // for each connection: the files may be renewed
			c, err := tls.LoadX509KeyPair(cfg.HTTP.CertFile, cfg.HTTP.KeyFile)
			return &c, err
		}
	}
	s, err := smtp.Listen(ctx, address, o)
	if err != nil {
		return nil, server.ExplainListen(err, "smtp.listenaddress", address)
	}
	log.Info("smtp server started", zap.Stringer("address", s.Addr()))
	return func() error { return s.Close(cfg.HTTP.DrainTimeout) }, nil
}
