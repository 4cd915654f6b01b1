package scanreport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"path"
	"strings"
)

// IsPredicate reports whether attestations with a type of predicate are scan reports: vuln of cosign, or vulns of in-toto, in any version.
func IsPredicate(predicateType string) bool {
	t := strings.TrimPrefix(predicateType, "https://")
	return t == "cosign.sigstore.dev/attestation/vuln/v1" || strings.HasPrefix(t, "in-toto.io/attestation/vulns/")
}

type predicate struct {
	Scanner struct {
		URI, Version string
		Result       json.RawMessage
	}
	Metadata struct{ ScanFinishedOn date }
}

// readPredicate reads the predicate of a statement: cosign's has what the scanner wrote, in-toto's a list.
func (s *summary) readPredicate(d *document) error {
	if !IsPredicate(d.PredicateType) {
		return errors.New("the attestation is no scan report")
	}
	var p predicate
	err := json.Unmarshal(d.Predicate, &p)
	if err != nil {
		return err
	}
	s.Time = p.Metadata.ScanFinishedOn.Time
	if p.Scanner.URI != "" { // such as pkg:github/aquasecurity/trivy@v0.68.1
		s.Scanner, _, _ = strings.Cut(path.Base(p.Scanner.URI), "@")
	}
	if bytes.HasPrefix(p.Scanner.Result, []byte("[")) {
		err = each(s, p.Scanner.Result, s.addVulnerability)
	} else if d, err = parse(p.Scanner.Result); err == nil {
		err = s.readResult(d)
	}
	s.Version = cmp.Or(s.Version, p.Scanner.Version)
	return err
}

// vulnerability is an entry of in-toto's list.
type vulnerability struct {
	Severity json.RawMessage // assessments, of which the worst counts
}

func (s *summary) addVulnerability(v *vulnerability) error {
	worst := Unknown
	err := each(s, v.Severity, func(a *struct{ Score string }) error {
		worst = min(worst, assessed(a.Score))
		return nil
	})
	s.Counts[worst]++
	return err
}
