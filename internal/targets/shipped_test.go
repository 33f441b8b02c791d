package targets

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func shipped(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The shipped file is valid without changes. With three environment variables it is configured for
// production.
func TestShippedFileIsValid(t *testing.T) {
	data := shipped(t)
	set, err := Parse("pools.yaml", data, lookupOf())
	if err != nil {
		t.Fatal(err)
	}
	if !set.Redis.Embedded() || len(set.Providers) != 1 || set.Providers[0].API != APISimulated || len(set.Server.Keys) != 0 {
		t.Errorf("with an empty environment: %+v", set)
	}
	if len(set.Targets) < 2 {
		t.Errorf("%d targets", len(set.Targets))
	}
	for _, target := range set.Targets {
		if target.Depth < 1 || target.Halted() != "" || !strings.Contains(target.Identity.Pageurl, "example.com/") {
			t.Errorf("target %+v is not warm from the start or not an example", target)
		}
	}

	set, err = Parse("pools.yaml", data, lookupOf("REDIS_URL", "redis://redis.example.com:6379", "CAPTCHAAI_API_KEY", "k", "POOLD_KEY", "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if set.Redis.Embedded() || len(set.Providers) != 1 || set.Providers[0].API != APILegacy ||
		set.Providers[0].Profile != "captchaai" || len(set.Server.Keys) != 1 {
		t.Errorf("in production: %+v", set)
	}
	for _, target := range set.Targets { // examples cost nothing
		if !target.Withheld {
			t.Errorf("%s is bought from a real service", target.Name)
		}
	}
	if len(set.Warnings) != 0 {
		t.Errorf("in production it warns:\n%s", warnings(set))
	}
	if _, err := Parse("pools.yaml", data, lookupOf("REDIS_URL", "redis://redis.example.com:6379")); err == nil ||
		!strings.Contains(err.Error(), "set CAPTCHAAI_API_KEY") {
		t.Errorf("with a real Redis and no provider: %v", err)
	}
}

// referenceBlocks returns the blocks of docs/reference.md, each of which shows one section.
func referenceBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		blocks = append(blocks, string(block[1]))
	}
	return blocks
}

// If the first block of each section in the reference is joined with the others, the result is a
// valid file.
func TestReferenceIsValid(t *testing.T) {
	file, sections := "", map[string]bool{}
	for _, block := range referenceBlocks(t) {
		if section, _, _ := strings.Cut(block, ":"); !sections[section] {
			sections[section] = true
			file += block
		}
	}
	for _, f := range pools.fields {
		if !sections[f.key] {
			t.Errorf("the reference has no block of %s", f.key)
		}
	}
	_, err := Parse("pools.yaml", []byte(file), lookupOf("CAPTCHAAI_API_KEY", "k", "POOLD_KEY", "0123456789abcdef", "DATABASE_URL", "postgres://h/d", "PROXY", "h:1"))
	if err != nil {
		t.Error(err)
	}
}

// The reference explains every key that Parse knows.
func TestReferenceNamesEveryKey(t *testing.T) {
	data := strings.Join(referenceBlocks(t), "")
	known := fieldsOf(pools)
	if len(known) < 60 {
		t.Fatalf("the table has only %d keys", len(known))
	}
	for _, f := range known {
		if !regexp.MustCompile(`(?m)[ {]` + f.key + `:|^` + f.key + `:`).MatchString(data) {
			t.Errorf("docs/reference.md does not show %s", f.key)
		}
		if f.doc == "" || strings.Contains(f.doc, "\n") || !strings.HasSuffix(f.doc, ".") {
			t.Errorf("%s is not explained in one line: %q", f.key, f.doc)
		}
	}
}

func TestReferenceNamesDefaults(t *testing.T) {
	data := strings.Join(referenceBlocks(t), "")
	named := regexp.MustCompile(`(?m)^[ #]*([a-z0-9_]+): .*[Dd]efault ([0-9][0-9a-z.]*|true|false|captcha)\b`).FindAllStringSubmatch(data, -1)
	if len(named) < 10 {
		t.Fatalf("the reference names only %d defaults", len(named))
	}
	for _, m := range named {
		key, value := m[1], strings.TrimRight(m[2], ".")
		d, _ := time.ParseDuration(value)
		if !slices.ContainsFunc(fieldsOf(pools), func(f field) bool {
			if f.key != key || !f.preset.IsValid() {
				return false
			}
			preset := f.preset.Interface()
			return fmt.Sprint(preset) == value || preset == d
		}) {
			t.Errorf("the reference gives %s the default %s, the table does not", key, value)
		}
	}
}

// fieldsOf returns the fields of a kind and of all kinds inside it.
func fieldsOf(k kind) (fields []field) {
	switch k := k.(type) {
	case section:
		for _, f := range k.fields {
			fields = append(append(fields, f), fieldsOf(f.kind)...)
		}
	case list:
		return fieldsOf(k.item)
	case mapping:
		return fieldsOf(k.item)
	case numberOr:
		return fieldsOf(k.section)
	}
	return fields
}
