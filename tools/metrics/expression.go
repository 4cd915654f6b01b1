// Package metrics holds PromQL against what the built services export, so that
// no rule and no panel names a metric, or a label, that is not there.
package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// foreign are metrics of others: of Prometheus, node_exporter and the kubelet.
var foreign = []string{
	"up", "node_filesystem_avail_bytes", "node_filesystem_size_bytes",
	"kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes",
}

// attached are labels that Prometheus adds to what it scrapes.
var attached = []string{"job", "namespace", "instance", "le"}

var (
	open      = regexp.MustCompile(`^\d+$|\$`) // HTTP statuses and variables of a dashboard: any value may come
	groupings = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	selectors = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?`)
	matchers  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	ranges    = regexp.MustCompile(`\[[^\]]*\]`)
	numbers   = regexp.MustCompile(`\b\d[\w.]*`)
	keywords  = []string{"and", "or", "unless", "bool", "offset", "inf"}
)

// Check returns what is wrong with an expression: metrics that neither the
// services export nor a rule records, and labels that a metric has not. Labels
// are checked wherever a selector names them, values where it wants them exactly.
func (s Series) Check(expression string, recorded []string) (problems []string) {
	text := groupings.ReplaceAllString(expression, " ")
	text = ranges.ReplaceAllString(text, " ")
	for _, found := range selectors.FindAllStringSubmatchIndex(numbers.ReplaceAllStringFunc(text, blank), -1) {
		name, inner := text[found[2]:found[3]], ""
		if found[4] >= 0 {
			inner = text[found[4]:found[5]]
		}
		rest := strings.TrimSpace(text[found[1]:])
		if strings.HasPrefix(rest, "(") || slices.Contains(keywords, strings.ToLower(name)) || slices.Contains(foreign, name) || slices.Contains(recorded, name) {
			continue
		}
		if _, ok := s[name]; !ok {
			problems = append(problems, fmt.Sprintf("nobody exports %s", name))
			continue
		}
		for _, m := range matchers.FindAllStringSubmatch(inner, -1) {
			if problem := s.match(name, m[1], m[2], m[3]); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	return problems
}

// blank keeps the places of what follows.
func blank(s string) string { return strings.Repeat(" ", len(s)) }

func (s Series) match(name, label, operator, value string) string {
	if slices.Contains(attached, label) {
		return ""
	}
	known := false
	for _, labels := range s[name] {
		got, ok := labels[label]
		known = known || ok
		if ok && got == value {
			return ""
		}
	}
	switch {
	case !known:
		return fmt.Sprintf("%s has no label %s", name, label)
	case operator == "=" && !open.MatchString(value):
		return fmt.Sprintf("no %s has %s=%q", name, label, value)
	}
	return ""
}
