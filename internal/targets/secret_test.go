package targets

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"poold/internal/testkit"
)

// secretFiles returns the lists of testdata/secrets.yaml.
func secretFiles(t *testing.T) (places, values, texts []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/secrets.yaml")
	testkit.NoError(t, err)
	var lists struct{ Places, Values, Texts []string }
	testkit.NoError(t, yaml.Unmarshal(data, &lists))
	return lists.Places, lists.Values, lists.Texts
}

// No problem and no warning contains a secret. The secret may be literal, from the environment, in
// a value of the wrong kind, or in a line that is not YAML.
func TestNoSecretInAnyProblem(t *testing.T) {
	testkit.WithoutRace(t)
	const secret = "CANARY"
	places, values, _ := secretFiles(t)
	lookup := lookupOf("SECRET", secret)
	refused := 0
	for _, place := range places {
		for _, value := range values {
			text := fmt.Sprintf(place, value) + minimal()
			text = strings.Replace(text, "extra: [", "providers: [", 1)
			for _, block := range []string{text, "server: {keys: []}\n" + text, strings.ReplaceAll(text, "{", "\n  {")} {
				set, err := Parse("pools.yaml", []byte(block), lookup)
				if err != nil {
					refused++
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s\nsays:\n%v", block, err)
					}
				} else if strings.Contains(warnings(set)+fmt.Sprintf("%+v", *set), secret) && !strings.Contains(place, "extra") {
					t.Errorf("%s\nwarns:\n%s", block, warnings(set))
				}
			}
		}
	}
	testkit.AtLeast(t, "refused texts", refused, len(places)*len(values))
}

// No message contains a value of the environment, even for a key that is not secret. A reference to
// the wrong variable may insert a secret there.
func TestNoEnvironmentValueInAnyProblem(t *testing.T) {
	_, _, texts := secretFiles(t)
	for _, text := range texts {
		for _, value := range []string{"CANARY {[", "geetest CANARY", " CANARY", "CANARY\n"} {
			_, err := Parse("pools.yaml", []byte(text+minimal()), lookupOf("V", value))
			if err == nil || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%s%v", text, err)
			}
		}
	}
}

// FuzzParse looks for a panic, an error of another type than Problems, and a value of the
// environment in a message.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/bad.txtar", "testdata/good.txtar"} {
		for _, file := range caseFiles(f, path) {
			f.Add(file.data)
		}
	}
	full, err := os.ReadFile("testdata/good-full.yaml")
	testkit.NoError(f, err)
	f.Add(full)
	const secret = "ca+na/ry"
	lookup := References{Variable: func(string) (string, bool) { return secret, true }}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), secret) {
			t.Skip("the secret stands in the file itself")
		}
		set, err := Parse("pools.yaml", data, lookup)
		if err != nil {
			problems, ok := err.(Problems) //nolint:errorlint // Parse promises exactly this type
			if !ok || len(problems) == 0 || set != nil {
				t.Fatalf("set %v, error %T: %v", set, err, err)
			}
			for _, p := range problems {
				if strings.Contains(p.Text, secret) || strings.ContainsAny(p.Text, "\n\r\x1b") || p.Line < 0 ||
					p.Line > strings.Count(string(data), "\n")+1 {
					t.Fatalf("problem %q", p)
				}
			}
			return
		}
		if strings.Contains(warnings(set), secret) {
			t.Fatalf("a warning shows the secret:\n%s", warnings(set))
		}
	})
}
