package scanreport

import (
	"encoding/base64"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Reports as the programs write them, shortened to a few findings.
const (
	trivySARIF = `{"version":"2.1.0","$schema":"https://json.schemastore.org/sarif-2.1.0.json","runs":[{
		"results":[
			{"ruleId":"CVE-2026-1","ruleIndex":0,"level":"error","message":{"text":"Package: libssl3\nInstalled Version: 3.0.1"}},
			{"ruleId":"CVE-2026-1","ruleIndex":0,"level":"error","message":{"text":"Package: libcrypto3\nInstalled Version: 3.0.1"}},
			{"ruleId":"CVE-2026-1","ruleIndex":0,"level":"error","message":{"text":"Package: libssl3\nInstalled Version: 3.0.1"}},
			{"ruleId":"CVE-2026-2","ruleIndex":1,"level":"warning","message":{"text":"Package: musl"}},
			{"ruleId":"CVE-2026-3","ruleIndex":2,"level":"note","message":{"text":"Package: zlib"}}],
		"tool":{"driver":{"name":"Trivy","version":"0.68.1","rules":[
			{"id":"CVE-2026-1","defaultConfiguration":{"level":"error"},"properties":{"precision":"very-high","security-severity":"9.8","tags":["CRITICAL"]}},
			{"id":"CVE-2026-2","properties":{"security-severity":"5.3"}},
			{"id":"CVE-2026-3","properties":{"security-severity":"0.0"}}]}}}]}`
	grypeSARIF = `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"grype","version":"0.104.0","rules":[
			{"id":"CVE-2026-1-openssl","properties":{"security-severity":"7.5"}},{"id":"CVE-2026-4-bash","properties":{"security-severity":"1.2"}}]}},
		"results":[{"ruleId":"CVE-2026-1-openssl","message":{"text":"reports openssl"}},{"ruleId":"CVE-2026-4-bash","ruleIndex":0,"message":{"text":"reports bash"}}]}]}`
	levelSARIF = `{"runs":[{"tool":{"driver":{"name":"lint","rules":[{"id":"a","defaultConfiguration":{"level":"note"}},{"id":"b","properties":{"security-severity":"bad"}},
			{"id":"c","properties":{"security-severity":4.0}}]}},
		"results":[{"ruleId":"a","message":{"text":"1"}},{"ruleId":"a","level":"error","message":{"text":"2"}},{"message":{"text":"3"}},{"ruleId":"a","level":"none","message":{"text":"4"}},
			{"ruleId":"a","kind":"pass","message":{"text":"5"}},{"ruleId":"b","message":{"text":"6"}},{"ruleId":"c","kind":"fail","message":{"text":"7"}}]},
		{"tool":{"driver":{"name":"second"}},"results":[]}]}`
	trivyJSON = `{"SchemaVersion":2,"Trivy":{"Version":"0.68.1"},"CreatedAt":"2026-05-06T07:08:09.123456789Z","ArtifactName":"registry.example.org/app:1","ArtifactType":"container_image",
		"Metadata":{"OS":{"Family":"debian"}},"Results":[
		{"Target":"app:1 (debian 12.1)","Class":"os-pkgs","Vulnerabilities":[
			{"VulnerabilityID":"CVE-2026-1","PkgName":"libssl3","InstalledVersion":"3.0.1","Severity":"CRITICAL","CVSS":{"nvd":{"V3Score":9.8}}},
			{"VulnerabilityID":"CVE-2026-1","PkgName":"openssl","InstalledVersion":"3.0.1","Severity":"CRITICAL"},
			{"VulnerabilityID":"CVE-2026-2","PkgName":"bash","InstalledVersion":"5.2","Severity":"LOW"}]},
		{"Target":"app/a.jar","Class":"lang-pkgs","Packages":[{"Name":"log4j"}],"Vulnerabilities":[
			{"VulnerabilityID":"CVE-2026-9","PkgName":"log4j","PkgPath":"app/a.jar","InstalledVersion":"2.0","Severity":"HIGH"},
			{"VulnerabilityID":"CVE-2026-9","PkgName":"log4j","PkgPath":"app/b.jar","InstalledVersion":"2.0","Severity":"HIGH"},
			{"VulnerabilityID":"CVE-2026-9","PkgName":"log4j","InstalledVersion":"2.1","Severity":"HIGH"},
			{"VulnerabilityID":"CVE-2026-8","PkgName":"log4j","InstalledVersion":"2.1","Severity":"UNKNOWN"}]},
		{"Target":"key.pem","Class":"secret","Secrets":[{"RuleID":"private-key","Severity":"HIGH"}]}]}`
	trivyOther = `{"SchemaVersion":2,"ArtifactName":"app:1","ArtifactType":"container_image","Results":[
		{"Target":"app/.env","Class":"secret","Secrets":[
			{"RuleID":"aws-access-key-id","Category":"AWS","Severity":"CRITICAL","StartLine":1},{"RuleID":"aws-access-key-id","Severity":"CRITICAL","StartLine":2},
			{"RuleID":"github-pat","Severity":"HIGH"}]},
		{"Target":"app/config","Class":"secret","Secrets":[{"RuleID":"aws-access-key-id","Severity":"CRITICAL"}]},
		{"Target":"Dockerfile","Class":"config","Type":"dockerfile","MisconfSummary":{"Successes":1,"Failures":2},"Misconfigurations":[
			{"Type":"Dockerfile Security Check","ID":"DS002","AVDID":"AVD-DS-0002","Severity":"HIGH","Status":"FAIL"},
			{"ID":"DS026","Severity":"LOW","Status":"FAIL"},{"ID":"DS001","Severity":"MEDIUM","Status":"PASS"},{"ID":"DS003","Severity":"MEDIUM","Status":"EXCEPTION"}]}]}`
	suppressedSARIF = `{"runs":[{"tool":{"driver":{"name":"lint"}},"results":[
		{"ruleId":"1","level":"error","suppressions":[{"kind":"inSource"}]},{"ruleId":"4","level":"note","suppressions":[]},
		{"ruleId":"7","level":"note","suppressions":null}]}]}`
	vulns = `{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://in-toto.io/attestation/vulns/v0.2","subject":[],"predicate":{
		"scanner":{"uri":"pkg:github/anchore/grype@v0.104.0","version":"0.104.0","db":{"lastUpdate":"2026-01-01T00:00:00Z"},"result":[
			{"id":"CVE-2026-1","severity":[{"method":"nvd","score":"medium"},{"method":"cvss_score","score":"9.1"}]},
			{"id":"CVE-2026-2","severity":[{"method":"EPSS","score":"0.9"},{"method":"nvd","score":"Medium"}]},
			{"id":"CVE-2026-3","severity":[{"method":"CVSSv3","score":"7.5"}]},
			{"id":"CVE-2026-3","severity":[]},
			{"id":"CVE-2026-4"},{"id":"CVE-2026-5","severity":[{"method":"cvss","score":"CVSS:3.1/AV:N"}]}]},
		"metadata":{"scanStartedOn":"2026-02-03T04:05:05Z","scanFinishedOn":"2026-02-03T04:05:06Z"}}}`
)

// attest makes a statement of cosign attest --type vuln.
func attest(result string) string {
	return `{"_type":"https://in-toto.io/Statement/v0.1","predicateType":"https://cosign.sigstore.dev/attestation/vuln/v1","predicate":{
		"invocation":{"parameters":null},"scanner":{"uri":"pkg:github/aquasecurity/trivy@v0.50.0","version":"0.50.0","result":` + result + `},
		"metadata":{"scanFinishedOn":"2026-02-03T04:05:06Z"}}}`
}

// dsse makes an envelope.
func dsse(statement string) string {
	return `{"payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AAAA"}],"payload":"` + base64.StdEncoding.EncodeToString([]byte(statement)) + `"}`
}

// bundle makes a bundle of Sigstore.
func bundle(statement string) string {
	return `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},"dsseEnvelope":` + dsse(statement) + `}`
}

func TestRead(t *testing.T) {
	trivy := Report{"Trivy", [5]int{2, 4, 0, 1, 1}}
	grype := Report{"grype", [5]int{0, 1, 0, 1, 0}}
	listed := Report{"pkg:github/anchore/grype@v0.104.0", [5]int{1, 1, 1, 0, 3}}
	for name, tt := range map[string]struct {
		content string
		want    Report
	}{
		"SARIF of Trivy":            {trivySARIF, Report{"Trivy", [5]int{3, 0, 1, 0, 1}}},
		"with a byte order mark":    {"\ufeff" + trivySARIF, Report{"Trivy", [5]int{3, 0, 1, 0, 1}}},
		"SARIF of Grype":            {grypeSARIF, grype},
		"SARIF by level":            {levelSARIF, Report{"second", [5]int{0, 1, 2, 1, 2}}},
		"SARIF with suppressions":   {suppressedSARIF, Report{"lint", [5]int{0, 0, 0, 2, 0}}},
		"SARIF without runs":        {`{"version":"2.1.0","runs":[]}`, Report{}},
		"Trivy's JSON":              {trivyJSON, trivy},
		"Trivy's JSON, no packages": {trivyOther, Report{"Trivy", [5]int{3, 2, 0, 1, 0}}},
		"Trivy's JSON, all is well": {`{"SchemaVersion":2,"CreatedAt":1629894030,"ArtifactName":"a"}`, Report{Scanner: "Trivy"}},
		"cosign, Trivy's JSON":      {attest(trivyJSON), trivy},
		"cosign, SARIF":             {attest(grypeSARIF), grype},
		"cosign, without a scheme":  {strings.Replace(attest(grypeSARIF), "https://cosign", "cosign", 1), grype},
		"in-toto":                   {vulns, listed},
		"in-toto in an envelope":    {dsse(vulns), listed},
		"cosign in an envelope":     {dsse(attest(trivyJSON)), trivy},
		"in-toto in a bundle":       {bundle(vulns), listed},
		"cosign in a bundle":        {bundle(attest(trivyJSON)), trivy},
	} {
		if got, err := Read([]byte(tt.content)); err != nil || *got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
}

func TestRead_Unreadable(t *testing.T) {
	for name, content := range map[string]string{
		"nothing":                     ``,
		"no object":                   `[]`,
		"cut":                         trivyJSON[:len(trivyJSON)-1],
		"something else":              `{"spdxVersion":"SPDX-2.3"}`,
		"a manifest":                  `{"schemaVersion":2,"config":{},"layers":[]}`,
		"runs of another type":        `{"runs":{"results":[]}}`,
		"a run without results":       `{"runs":[{"tool":{"driver":{"name":"x"}}}]}`,
		"a run that failed":           `{"runs":[{"tool":{"driver":{"name":"x"}},"results":null}]}`,
		"a run without a tool":        `{"runs":[{"results":[]}]}`,
		"results of another type":     `{"runs":[{"tool":{"driver":{"name":"x"}},"results":[1]}]}`,
		"Trivy, another type":         `{"SchemaVersion":2,"ArtifactName":"a","Results":[{"Vulnerabilities":"none"}]}`,
		"Trivy, secrets of another":   `{"SchemaVersion":2,"ArtifactName":"a","Results":[{"Secrets":{}}]}`,
		"deep":                        `{"runs":` + strings.Repeat("[", 100_000),
		"another attestation":         strings.Replace(vulns, "vulns/v0.2", "release/v0.1", 1),
		"an attestation of nothing":   attest("null"),
		"an attestation of no report": attest(`{"matches":[]}`),
		"attestations in each other":  attest(attest(attest(trivyJSON))),
		"a bundle without envelope":   `{"messageSignature":{"signature":"AAAA"}}`,
		"envelopes in each other":     dsse(dsse(dsse(vulns))),
		"an envelope without base64":  `{"payload":"%"}`,
		"an envelope of nothing":      dsse(""),
	} {
		if got, err := Read([]byte(content)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A report takes no more memory than its readers reserve, however many entries it has.
func TestRead_Bounds(t *testing.T) {
	const size = 5 << 20 // of reports with many entries: the smaller they are, the more these weigh
	fill := func(head, entry, tail string) string {
		n := (size - len(head) - len(tail)) / (len(entry) + 1)
		return head + strings.Repeat(entry+",", n-1) + entry + tail
	}
	distinct := func(head, entry, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size-100; i++ {
			fmt.Fprintf(&b, entry+",", i)
		}
		return strings.TrimSuffix(b.String(), ",") + tail
	}
	const sarif = `{"runs":[{"tool":{"driver":{"name":"x"`
	for name, tt := range map[string]struct {
		content string
		large   bool
	}{
		"suppressions":  {fill(sarif+`}},"results":[{"suppressions":[`, `{}`, `]}]}]}`), false},
		"arguments":     {sarif + `}},"results":[{"message":{"arguments":[` + strings.Repeat(`"",`, MaxReport/3-100) + `""]}}]}]}`, false},
		"many findings": {distinct(`{"SchemaVersion":2,"ArtifactName":"a","Results":[{"Vulnerabilities":[`, `{"VulnerabilityID":"%d"}`, `]}]}`), true},
		"many rules":    {distinct(sarif+`,"rules":[`, `{"id":"%d"}`, `]}},"results":[]}]}`), true},
		"runs":          {fill(`{"runs":[`, `{"tool":{"driver":{"name":"x"}},"results":[]}`, `]}`), true},
		"results":       {fill(sarif+`}},"results":[`, `{}`, `]}]}`), true},
		"assessments":   {fill(strings.Split(vulns, `{"id"`)[0]+`{"id":"a","severity":[`, `{}`, `]}]}}}`), true},
		"a text":        {strings.TrimSuffix(sarif, `"`) + strings.Repeat("y", MaxReport-100) + `"}},"results":[]}]}`, false},
		"an envelope":   {bundle(attest(`{"SchemaVersion":2,"ArtifactName":"a","Results":[` + strings.Repeat(`{},`, MaxReport/5) + `{}]}`)), true},
	} {
		content := []byte(tt.content)
		tt.content = ""
		most := peak(t, func() {
			got, err := Read(content)
			if (err != nil) != tt.large {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		})
		t.Logf("%s: %d MiB", name, most>>20)
		if room := Room(int64(len(content))); most > room+room/4 {
			t.Errorf("%s: %d bytes took %d bytes of memory, more than %d", name, len(content), most, room)
		}
	}
}

// peak returns about how many bytes of memory f takes.
func peak(t *testing.T, f func()) int64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}} // unlike MemStats, read without stopping f
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		most := before
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-stop:
				done <- int64(most - before)
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	return <-done
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{trivySARIF, grypeSARIF, levelSARIF, trivyJSON, vulns, attest(trivyJSON), dsse(vulns), bundle(attest(grypeSARIF))} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := Read(content)
		if err != nil {
			return
		}
		sum := 0
		for _, n := range r.Counts {
			if sum += n; n < 0 {
				t.Errorf("%+v", r)
			}
		}
		if (sum > 0) != (len(r.Found()) > 0) {
			t.Errorf("%+v", r)
		}
	})
}
