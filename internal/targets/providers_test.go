package targets

import (
	"strings"
	"testing"
)

// Parse chooses between the real providers, the listed simulated provider and the built-in
// simulated provider.
func TestParseChoosesUsableProviders(t *testing.T) {
	const redis = "redis: {url: 'redis://redis.example.com:6379'}\n"
	real := func(key string) string {
		return "  - {name: acme, url: 'https://solver.example.com', key: '" + key + "'}\n"
	}
	const listed = "  - {name: own, api: simulated, concurrency: 3, key: ignored}\n"
	file := func(redis, providers string) string {
		_, targets, _ := strings.Cut(minimal(), "targets:\n")
		return redis + "providers:\n" + providers + "targets:\n" + targets
	}
	for _, tc := range []struct {
		name, text, provider string
		api                  API
		warning              string
	}{
		{"real, embedded", file("", real("k")), "acme", APILegacy, "the embedded Redis keeps nothing over a restart"},
		{"real beats listed", file("", listed+real("k")), "acme", APILegacy, "providers.own: is not used, because a real provider has a key"},
		{"listed where no real is left", file("", real("")+listed), "own", APISimulated, "providers.own: tokens are simulated"},
		{"listed alone with Redis", file(redis, listed), "own", APISimulated, "providers.own.key: is not used with api: simulated"},
		{"listed with callbacks", file("", strings.Replace(listed, "key: ignored", "callback_url: 'https://poold.example.com'", 1)), "own", APISimulated, "providers.own.callback_url: is not used with api: simulated"},
		{"built in", file("", real("")), "simulated", APISimulated, "no site accepts its tokens"},
		{"built in for an empty list", file("", ""), "simulated", APISimulated, "no site accepts its tokens"},
		{"built in without a list", strings.Replace(file("", ""), "providers:\n", "", 1), "simulated", APISimulated, "no site accepts its tokens"},
	} {
		set := mustParse(t, tc.text, References{})
		if len(set.Providers) != 1 || set.Providers[0].Name != tc.provider || set.Providers[0].API != tc.api {
			t.Errorf("%s: providers %+v", tc.name, set.Providers)
		}
		if got := warnings(set); !strings.Contains(got, tc.warning) {
			t.Errorf("%s: warnings\n%s\nwant one with %q", tc.name, got, tc.warning)
		}
	}
}

// The address of a provider must be a base address. An address that ends in a method of a protocol
// is refused. If a slash follows the method, the address is accepted with a warning.
func TestProviderURLIsABaseAddress(t *testing.T) {
	const (
		refused = "pools.yaml:2: providers.acme.url: must be the base address, without in.php, createTask and the like"
		warned  = "pools.yaml:2: providers.acme.url: ends in a method such as in.php, to which poold adds another: give the base address\n"
	)
	for _, tc := range []struct{ url, want, problem, warning string }{
		{url: "https://s.example.com/base//", want: "https://s.example.com/base"},
		{url: "https://s.example.com/in.php/v2", want: "https://s.example.com/in.php/v2"},
		{url: "https://s.example.com/in.php", problem: refused},
		{url: "https://s.example.com/a/getTaskResult", problem: refused},
		{url: "https://s.example.com/in.php/", want: "https://s.example.com/in.php", warning: warned},
		{url: "https://s.example.com/createTask/", want: "https://s.example.com/createTask", warning: warned},
	} {
		set, err := Parse("pools.yaml", []byte(strings.Replace(minimal(), "https://solver.example.com", tc.url, 1)), References{})
		if tc.problem != "" {
			if err == nil || err.Error() != tc.problem {
				t.Errorf("%s: %v, want %s", tc.url, err, tc.problem)
			}
			continue
		}
		if err != nil || set.Providers[0].URL != tc.want {
			t.Errorf("%s: %v, %+v, want %s", tc.url, err, set, tc.want)
			continue
		}
		if got := warnings(set); strings.Contains(got, "acme.url") != (tc.warning != "") || !strings.Contains(got, tc.warning) {
			t.Errorf("%s: warnings\n%s", tc.url, got)
		}
	}
}
