// Package bytesize formats numbers of bytes for people.
package bytesize

import (
	"fmt"
	"math"
)

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Text formats n in the largest unit of which it has at least one, such as 1.5 MiB.
func Text(n int64) string {
	value, unit := float64(n), "B"
	for _, larger := range units {
		if math.Abs(value) < 1024 {
			break
		}
		value, unit = value/1024, larger
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
