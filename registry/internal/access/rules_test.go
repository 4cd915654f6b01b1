package access

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

func rules(t testing.TB, groups map[string][]string, list ...Rule) *Rules {
	t.Helper()
	r, err := New(groups, list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func grant(t testing.TB, repositories string, rights ...string) []Grant {
	t.Helper()
	g, err := NewGrant([]string{repositories}, rights)
	if err != nil {
		t.Fatal(err)
	}
	return []Grant{g}
}

func TestListsMore(t *testing.T) {
	anyone := func(repositories string) Rule {
		return Rule{Who: []string{"anyone"}, Repositories: []string{repositories}, Allow: []string{"pull", "list"}}
	}
	alice := func(repositories string, allow ...string) Rule {
		return Rule{Who: []string{"alice"}, Repositories: []string{repositories}, Allow: allow}
	}
	hidden := Rule{Who: []string{"anyone"}, Repositories: []string{"secret/**"}, Deny: []string{"list"}}
	for what, tt := range map[string]struct {
		rules []Rule
		want  bool
	}{
		"no rules":                      {nil, false},
		"anyone":                        {[]Rule{anyone("**")}, false},
		"more for alice":                {[]Rule{anyone("open/**"), alice("**", "list")}, true},
		"more for alice, before":        {[]Rule{alice("**", "list"), anyone("open/**")}, true},
		"the same for alice":            {[]Rule{anyone("open/**"), alice("open/**", "list", "push")}, false},
		"the same for alice, before":    {[]Rule{alice("open/**", "list"), anyone("**")}, false},
		"other rights for alice":        {[]Rule{anyone("open/**"), alice("**", "pull", "push")}, false},
		"admin":                         {[]Rule{anyone("open/**"), alice("**", "admin")}, true},
		"hidden from everybody":         {[]Rule{hidden, alice("secret/**", "list"), anyone("**")}, false},
		"hidden from everybody but her": {[]Rule{alice("secret/**", "list"), hidden, anyone("**")}, true},
	} {
		if got := rules(t, nil, tt.rules...).ListsMore(); got != tt.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	if UsersOnly(true).ListsMore() {
		t.Error("without rules")
	}
}

func TestDecide(t *testing.T) {
	r := rules(
		t, map[string][]string{"owners": {"alice", "robot:boss"}},
		Rule{Who: []string{"mallory"}, Repositories: []string{"**"}, Deny: []string{"pull", "push"}},
		Rule{Who: []string{"anyone"}, Repositories: []string{"secret/**"}, Deny: []string{"list"}},
		Rule{Who: []string{"anyone"}, Repositories: []string{"**"}, Allow: []string{"pull", "list"}},
		Rule{Who: []string{"bob"}, Repositories: []string{"web/*", "tools"}, Allow: []string{"push"}},
		Rule{Who: []string{"group:owners"}, Repositories: []string{"**"}, Allow: []string{"admin"}},
		Rule{Who: []string{"users"}, Repositories: []string{"shared/**"}, Allow: []string{"push", "tag-move"}},
		Rule{Who: []string{"cert:build-7"}, Repositories: []string{"web/**"}, Allow: []string{"delete"}},
		Rule{Who: []string{"carl"}, Repositories: []string{"*"}, Allow: []string{"admin"}},
	)
	for _, tt := range []struct {
		who   string
		own   []Grant
		name  oci.Name
		right string
		want  string // the beginning of the explanation
	}{
		{"anonymous", nil, "web/app", "pull", "allowed by rules[2]: anyone in **: allow pull, list"},
		{"anonymous", nil, "web/app", "push", "denied: no rule allows it"},
		{"anonymous", nil, "secret/a", "list", "denied by rules[1]: anyone in secret/**: deny list"},
		{"anonymous", nil, "secret/a", "pull", "allowed by rules[2]"},
		{"bob", nil, "web/app", "push", "allowed by rules[3]"},
		{"bob", nil, "web/app", "tag-move", "denied"},
		{"bob", nil, "web/app/deep", "push", "denied"},
		{"bob", nil, "tools", "push", "allowed by rules[3]"},
		{"bob", nil, "tools/x", "push", "denied"},
		{"user:bob", nil, "tools", "push", "allowed by rules[3]"},
		{"robot:bob", nil, "tools", "push", "denied"},
		{"alice", nil, "any/thing", "delete", "allowed by rules[4]"},
		{"alice", nil, "", "admin", "allowed by rules[4]"},
		{"carl", nil, "app", "delete", "allowed by rules[7]"},
		{"carl", nil, "", "admin", "denied"}, // "*" is not the registry as a whole
		{"robot:boss", nil, "any/thing", "tag-move", "allowed by rules[4]"},
		{"mallory", nil, "shared/x", "push", "denied by rules[0]"},
		{"mallory", nil, "web/x", "pull", "denied by rules[0]"},
		{"eve", nil, "shared/x", "push", "allowed by rules[5]"},
		{"robot:r", nil, "shared/x", "push", "denied"}, // robots are no users
		{"robot:r", grant(t, "r/**", "push"), "r/x", "push", "allowed by the caller's own grants"},
		{"robot:r", grant(t, "r/**", "push"), "r/x", "delete", "denied"},
		{"robot:r", grant(t, "r/**", "push"), "s/x", "push", "denied"},
		{"robot:r", grant(t, "secret/**", "list"), "secret/x", "list", "denied by rules[1]"},
		{"cert:build-7", nil, "web/a/b", "delete", "allowed by rules[6]"},
		{"build-7", nil, "web/a/b", "delete", "denied"},
	} {
		who := ParseCaller(tt.who)
		who.Own = tt.own
		right, err := ParseRight(tt.right)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Decide(&who, right, tt.name).String(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s %s %s: got %q, want %q", tt.who, tt.right, tt.name, got, tt.want)
		}
	}
}

func TestDecide_NilRulesAllowNothing(t *testing.T) {
	var r *Rules
	if r.May(&Caller{Kind: User, Name: "alice"}, Pull, "a") || r.Lists(&Caller{}) || r.Knows(&Caller{}) || r.Unlimited(&Caller{}) {
		t.Error("no rules allow something")
	}
}

func TestExplain_NamesTheRightThatIsMissing(t *testing.T) {
	r := rules(t, nil, Rule{Who: []string{"bob"}, Repositories: []string{"a"}, Allow: []string{"list"}})
	got := r.Explain(&Caller{Kind: User, Name: "bob"}, List, "a").String()
	if want := "denied: no rule allows it (list needs pull, too)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The model decides as docs/registry/log-in-and-rights.md says it, without any code of this package but
// the words.
func model(groups map[string][]string, list []Rule, who string, right string, repository string) bool {
	for _, rule := range list {
		named := false
		for _, w := range rule.Who {
			if group, ok := strings.CutPrefix(w, "group:"); ok {
				named = named || slices.Contains(groups[group], who)
			}
			named = named || w == "anyone" || w == who || w == "users" && who != "anonymous" && !strings.Contains(who, ":")
		}
		matches := slices.ContainsFunc(rule.Repositories, func(p string) bool {
			if prefix, ok := strings.CutSuffix(p, "/**"); ok {
				return strings.HasPrefix(repository, prefix+"/")
			}
			ok, _ := path.Match(p, repository) // "*" stops at slashes there, too
			return p == "**" || ok
		})
		if !named || !matches {
			continue
		}
		if slices.Contains(rule.Deny, right) {
			return false
		}
		if slices.Contains(rule.Allow, right) || slices.Contains(rule.Allow, "admin") || right == "pull" && slices.Contains(rule.Allow, "push") {
			return true
		}
	}
	return false
}

func TestDecide_AgreesWithTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 1))
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	some := func(list []string, most int) (chosen []string) {
		for range 1 + random.IntN(most) {
			chosen = append(chosen, pick(list))
		}
		return chosen
	}
	callers := []string{"anonymous", "alice", "bob", "robot:ci", "workload:w", "cert:c"}
	who := []string{"anyone", "users", "alice", "bob", "robot:ci", "workload:w", "cert:c", "group:g", "group:h"}
	patterns := []string{"**", "*", "a", "a/*", "a/**", "b/c", "b/**", "a/*/c"}
	names := []string{"a", "b", "a/b", "a/b/c", "b/c", "b/c/d"}
	groups := map[string][]string{"g": {"alice", "robot:ci"}, "h": {"cert:c"}}
	allowed := 0
	for n := range 10_000 {
		var list []Rule
		for range random.IntN(5) {
			rule := Rule{Who: some(who, 2), Repositories: some(patterns, 2), Allow: some(rightNames[:], 2)}
			if random.IntN(3) == 0 {
				rule.Deny, rule.Allow = rule.Allow, nil
			}
			list = append(list, rule)
		}
		r := rules(t, groups, list...)
		caller, word, name := pick(callers), pick(rightNames[:]), pick(names)
		c := ParseCaller(caller)
		right, _ := ParseRight(word)
		want := model(groups, list, caller, word, name)
		if got := r.Decide(&c, right, oci.Name(name)); got.Allowed != want {
			t.Fatalf("case %d: %s %s %s by %+v: got %v, want %v", n, caller, word, name, list, got, want)
		}
		if want {
			allowed++
		}
	}
	if allowed < 500 || allowed > 9500 {
		t.Errorf("%d of 10,000 cases are allowed, which proves little", allowed)
	}
}

// Whatever the rules and the rights of a robot, both names of a repository get the same
// answer, and for one without another name nothing changes.
func TestDecide_TwinsAreOne(t *testing.T) {
	twins := map[oci.Name]oci.Name{"hub/a": "hub/library/a", "hub/library/a": "hub/a"}
	random := rand.New(rand.NewPCG(15, 3))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	name := func() string {
		return pick("**", "hub/**", "hub/*", "hub/a", "hub/library/a", "hub/library/*", "hub/*/a", "hub/library/**", "other")
	}
	differ := 0
	for n := range 10_000 {
		var list []Rule
		for range random.IntN(4) {
			rule := Rule{Who: []string{"anyone"}, Repositories: []string{name()}}
			rights := []string{pick("pull", "push", "list", "admin")}
			if random.IntN(2) == 0 {
				rule.Deny = rights
			} else {
				rule.Allow = rights
			}
			list = append(list, rule)
		}
		plain := rules(t, nil, list...)
		r := plain.WithTwins(func(name oci.Name) oci.Name { return twins[name] })
		c := Caller{Kind: Robot, Name: "ci"}
		if random.IntN(3) == 0 {
			c.Own = grant(t, name(), "pull")
		}
		for right := Pull; right <= Admin; right <<= 1 {
			short, long := r.Decide(&c, right, "hub/a"), r.Decide(&c, right, "hub/library/a")
			if short != long {
				t.Fatalf("case %d: %+v with %+v: %s is %s for hub/a, and %s for hub/library/a", n, list, c.Own, right, short, long)
			}
			if plain.Decide(&c, right, "hub/a") != plain.Decide(&c, right, "hub/library/a") {
				differ++
			}
			for _, name := range []oci.Name{"other", "hub/b/c", ""} {
				if r.Decide(&c, right, name) != plain.Decide(&c, right, name) {
					t.Fatalf("case %d: the twins of others change %s", n, name)
				}
			}
		}
	}
	if differ < 1000 {
		t.Errorf("only %d decisions depend on the name", differ)
	}
}

func TestNew_SaysWhatIsWrong(t *testing.T) {
	_, err := New(map[string][]string{"g": {"anyone"}}, []Rule{
		{Who: []string{"group:h"}, Repositories: []string{"a"}, Allow: []string{"pull"}},
		{Repositories: []string{"a"}, Allow: []string{"pull"}},
		{Who: []string{"robot:"}, Repositories: []string{"a"}, Allow: []string{"pull"}},
		{Who: []string{"a"}, Allow: []string{"pull"}},
		{Who: []string{"a"}, Repositories: []string{"a"}, Allow: []string{"fetch"}},
	})
	for _, want := range []string{`groups.g: "anyone" cannot be a member`, `rules[0]: there is no group "h"`, "rules[1]: who is required", `rules[2]: "robot:" names nobody`, "rules[3]: repositories is required", `rules[4]: "fetch" is not one of the rights`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestCaller_StringIsParsed(t *testing.T) {
	for _, c := range []Caller{{}, {Kind: User, Name: "alice"}, {Kind: Robot, Name: "ci"}, {Kind: Workload, Name: "w"}, {Kind: Certificate, Name: "c"}, {Kind: User, Name: "robot:ci"}, {Kind: User, Name: "anonymous"}, {Kind: User, Name: "user:x"}, {Kind: User, Name: "a:b"}} {
		if got := ParseCaller(c.String()); got.Kind != c.Kind || got.Name != c.Name {
			t.Errorf("%+v became %+v", c, got)
		}
	}
}

func TestNew_RefusesWordsThatAreMeantOtherwise(t *testing.T) {
	for word, want := range map[string]string{
		"everyone":  `"everyone" is not a caller; write anyone for everybody, with or without a login, or users for everybody who logs in (a user of that name is user:everyone)`,
		"*":         "write anyone for everybody",
		"all":       "write anyone for everybody",
		"Anonymous": "write anyone for everybody",
		"Users":     `"Users" is written in small letters: users`,
		"robot+ci":  `"robot+ci" is the name that the robot logs in with; in rules it is robot:ci`,
		"robots:ci": `"robots:ci" is not a caller; write robot:ci`,
		"Robot:ci":  `"Robot:ci" is not a caller; write robot:ci`,
	} {
		_, err := New(nil, []Rule{{Who: []string{word}, Repositories: []string{"**"}, Allow: []string{"pull"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", word, err, want)
		}
	}
	r := rules(t, map[string][]string{"g": {"alice", "robot:ci"}}, Rule{Who: []string{"user:everyone", "group:g", "users", "alice"}, Repositories: []string{"**"}, Allow: []string{"pull"}})
	var named []string
	for _, c := range r.Named() {
		named = append(named, c.String())
	}
	if got := strings.Join(named, " "); got != "everyone alice robot:ci" {
		t.Errorf("the rules name %s", got)
	}
}
