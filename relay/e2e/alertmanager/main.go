// Alertmanager sends an alert with the webhook notifier of the newest Alertmanager, whose command go install can't build:
// alertmanager CONFIG firing|resolved SUMMARY, to the webhooks of the configuration's first receiver. It is a module of its own, so that
// the relay doesn't depend on Alertmanager.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/template"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v2"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file, state, summary string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config struct {
		Receivers []struct {
			Webhooks []*webhook.WebhookConfig `yaml:"webhook_configs"`
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	texts, err := template.FromGlobs(nil)
	if err != nil {
		return err
	}
	if texts.ExternalURL, err = url.Parse("http://alertmanager.example.org"); err != nil {
		return err
	}
	began := time.Now().Add(-time.Minute)
	a := model.Alert{
		Labels:       model.LabelSet{"alertname": "DiskFull", "instance": "web1", "severity": "warning"},
		Annotations:  model.LabelSet{"summary": model.LabelValue(summary)},
		StartsAt:     began,
		EndsAt:       began.Add(time.Hour),
		GeneratorURL: "http://prometheus.example.org/graph",
	}
	reason := notify.ReasonFirstNotification
	if state == "resolved" {
		a.EndsAt = began.Add(30 * time.Second)
		reason = notify.ReasonAllAlertsResolved
	}
	labels := model.LabelSet{"alertname": "DiskFull"}
	ctx = notify.WithReceiverName(ctx, "relay")
	ctx = notify.WithGroupKey(ctx, `{}:{alertname="DiskFull"}`)
	ctx = notify.WithGroupLabels(ctx, labels)
	ctx = notify.WithRouteLabels(ctx, model.LabelSet{"team": "web"})
	ctx = notify.WithNow(ctx, time.Now())
	ctx = notify.WithNotificationReason(ctx, reason)
	for _, hook := range config.Receivers[0].Webhooks {
		if hook.HTTPConfig == nil {
			hook.HTTPConfig = &commoncfg.DefaultHTTPClientConfig
		}
		sender, err := webhook.New(hook, texts, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		verdict := sender.Notify(ctx, alert.New(a, time.Now(), false))
		if err := verdict.Err(); err != nil {
			return err
		}
	}
	return nil
}
