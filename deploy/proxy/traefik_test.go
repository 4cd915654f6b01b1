package proxy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// traefikStatic is as much of Traefik 3's static configuration as the example
// uses. There is no Traefik to run here: the files are read strictly, and what
// they name has to be in them.
type traefikStatic struct {
	EntryPoints map[string]struct {
		Address string `yaml:"address"`
		HTTP    struct {
			Redirections struct {
				EntryPoint struct {
					To     string `yaml:"to"`
					Scheme string `yaml:"scheme"`
				} `yaml:"entryPoint"`
			} `yaml:"redirections"`
		} `yaml:"http"`
		Transport struct {
			RespondingTimeouts struct {
				ReadTimeout  *time.Duration `yaml:"readTimeout"`
				WriteTimeout *time.Duration `yaml:"writeTimeout"`
				IdleTimeout  *time.Duration `yaml:"idleTimeout"`
			} `yaml:"respondingTimeouts"`
			LifeCycle struct {
				GraceTimeOut time.Duration `yaml:"graceTimeOut"`
			} `yaml:"lifeCycle"`
		} `yaml:"transport"`
	} `yaml:"entryPoints"`
	CertificatesResolvers map[string]struct {
		ACME struct {
			Email        string   `yaml:"email"`
			Storage      string   `yaml:"storage"`
			TLSChallenge struct{} `yaml:"tlsChallenge"`
		} `yaml:"acme"`
	} `yaml:"certificatesResolvers"`
	Providers struct {
		File struct {
			Filename string `yaml:"filename"`
		} `yaml:"file"`
	} `yaml:"providers"`
}

// traefikDynamic is as much of the dynamic configuration as the example uses.
type traefikDynamic struct {
	HTTP struct {
		Routers map[string]struct {
			Rule        string   `yaml:"rule"`
			EntryPoints []string `yaml:"entryPoints"`
			Middlewares []string `yaml:"middlewares"`
			Service     string   `yaml:"service"`
			TLS         struct {
				CertResolver string `yaml:"certResolver"`
			} `yaml:"tls"`
		} `yaml:"routers"`
		Middlewares map[string]struct {
			Headers struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			} `yaml:"headers"`
			Buffering struct {
				MaxRequestBodyBytes int64 `yaml:"maxRequestBodyBytes"`
			} `yaml:"buffering"`
		} `yaml:"middlewares"`
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

// A rule is matchers with names in backquotes, joined.
var rule = regexp.MustCompile("^[!(]*(Host|Path|PathPrefix)\\(`[^`]+`\\)( (&&|\\|\\|) [!(]*(Host|Path|PathPrefix)\\(`[^`]+`\\)+)*$")

func TestTraefik(t *testing.T) {
	var static traefikStatic
	var dynamic traefikDynamic
	strictly(t, "traefik.yml", &static)
	strictly(t, "traefik-dynamic.yml", &dynamic)

	open := static.EntryPoints["websecure"].Transport.RespondingTimeouts
	if open.ReadTimeout == nil || *open.ReadTimeout != 0 || open.WriteTimeout == nil || *open.WriteTimeout != 0 {
		t.Error("Traefik would cut long uploads or downloads")
	}
	if to := static.EntryPoints["web"].HTTP.Redirections.EntryPoint.To; to != "websecure" {
		t.Errorf("plain requests are sent to %q", to)
	}
	for name, r := range dynamic.HTTP.Routers {
		if !rule.MatchString(r.Rule) || strings.Count(r.Rule, "(") != strings.Count(r.Rule, ")") {
			t.Errorf("%s: rule %s", name, r.Rule)
		}
		if _, ok := static.CertificatesResolvers[r.TLS.CertResolver]; !ok || !slices.Equal(r.EntryPoints, []string{"websecure"}) {
			t.Errorf("%s: resolver %q, entry points %v", name, r.TLS.CertResolver, r.EntryPoints)
		}
		if servers := dynamic.HTTP.Services[r.Service].LoadBalancer.Servers; len(servers) != 1 {
			t.Errorf("%s: service %q has %v", name, r.Service, servers)
		}
		for _, m := range r.Middlewares {
			if _, ok := dynamic.HTTP.Middlewares[m]; !ok {
				t.Errorf("%s: no middleware %s", name, m)
			}
		}
	}
	if len(dynamic.HTTP.Routers) != 2 {
		t.Errorf("%d routers", len(dynamic.HTTP.Routers))
	}
}

func strictly(t *testing.T, file string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, file)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
