// Package plural writes numbers of things as people do: "1 tag", "2 tags".
package plural

import (
	"fmt"
	"strings"
)

// Of is the number with its noun, given in the singular, such as "1 blob" or "3 repositories".
func Of[N ~int | ~int64 | ~uint64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, noun))
}

// Noun is the noun without the number.
func Noun[N ~int | ~int64 | ~uint64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case y && !strings.ContainsAny(stem[len(stem)-1:], "aeiou"):
		return stem + "ies"
	default:
		return noun + "s"
	}
}
