package main

import (
	"context"

	"go.uber.org/zap"

	"slipway/relay/internal/config"
	"slipway/relay/internal/smtp"
	"slipway/shared/server"
)

// listenSMTP starts the SMTP server if one is configured, with the certificate of the main server. stop drains and closes it.
func listenSMTP(ctx context.Context, cfg *config.Config, log *zap.Logger, p *parts, main *server.Server) (stop func() error, err error) {
	address := cfg.SMTP.ListenAddress
	if address == "" {
		return func() error { return nil }, nil
	}
	o := smtp.Options{
		Service: p.service, Log: log, Domain: cfg.SMTP.Domain, ImplicitTLS: cfg.SMTP.ImplicitTLS, Plaintext: cfg.SMTP.Plaintext,
	}
	if cfg.HTTP.TLS() {
		o.Certificate = main.Certificate
	}
	s, err := smtp.Listen(ctx, address, o)
	if err != nil {
		return nil, server.ExplainListen(err, "smtp.listenaddress", address)
	}
	log.Info("SMTP server started", zap.Stringer("address", s.Addr()))
	return func() error { return s.Close(cfg.HTTP.DrainTimeout) }, nil
}
