package pattern

import (
	"fmt"
	"strings"
)

// GlobHint describes how to write an expression in which a "*" stands behind a plain character, as in
// the pattern "v*" of a shell: there it repeats that character only. It is "" for other
// expressions. Some that are right get a hint, too: it is for warnings.
func GlobHint(expression string) string {
	stars, plain := plainStars(expression)
	if len(stars) == 0 {
		return ""
	}
	meant, from := "", 0
	for _, at := range stars {
		meant, from = meant+expression[from:at]+".", at
	}
	meant += expression[from:]
	if first := stars[0]; plain && first == len(expression)-1 {
		before := expression[:first]
		other := "1"
		if strings.HasSuffix(before, other) {
			other = "2"
		}
		return fmt.Sprintf("%s matches %s, %s, …, not %s; write %s", expression, before, before+before[first-1:], before+other, meant)
	}
	return fmt.Sprintf("%s: a * repeats the character before it and does not stand for others; write %s", expression, meant)
}

// plainStars are the places of the stars behind a plain character. plain is whether all else in
// the expression is plain.
func plainStars(expression string) (stars []int, plain bool) {
	plain = true
	class, before := false, false // within [...]; the last character was a plain one
	for i := 0; i < len(expression); i++ {
		switch c := expression[i]; {
		case c == '\\':
			i++
			plain, before = false, i < len(expression) && strings.IndexByte(".-_", expression[i]) >= 0
		case class:
			class = c != ']'
		case c == '[':
			plain, class, before = false, true, false
		case c == '*':
			if before {
				stars = append(stars, i)
			}
			plain, before = plain && before, false
		default:
			before = isPlain(c)
			plain = plain && (before || c == '*')
		}
	}
	return stars, plain
}

// isPlain reports whether the character stands for itself. A dot does not.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
