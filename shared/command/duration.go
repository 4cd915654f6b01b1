package command

import (
	"time"

	"github.com/spf13/pflag"

	"slipway/shared/duration"
)

// DurationFlag adds a flag that holds a duration such as 90s or 7d. value is its default.
func DurationFlag(flags *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Var((*durationValue)(d), name, usage)
}

type durationValue time.Duration

// String implements pflag.Value.
func (d *durationValue) String() string {
	if *d == 0 {
		return "0" // which pflag doesn't show as a default
	}
	return duration.Format(time.Duration(*d))
}

// Type implements pflag.Value.
func (d *durationValue) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *durationValue) Set(text string) error {
	v, err := duration.Parse(text)
	*d = durationValue(v)
	return err
}
