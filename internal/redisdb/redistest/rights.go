package redistest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Password is the password of the user that Rights describes.
const Password = "of-a-test"

// Rights returns the user's rights from the aclfile line in docs/configuration.md, word by word.
// Rights replaces the password by Password, and the prefix of the keys by the prefixes of the tests.
func Rights(t testing.TB) []string {
	t.Helper()
	var page []byte
	for up := ""; page == nil && len(up) < 15; up += "../" { // a test runs in the folder of its package
		page, _ = os.ReadFile(up + "docs/configuration.md")
	}
	line := regexp.MustCompile(`(?m)^user poold .*$`).FindString(string(page))
	if line == "" {
		t.Fatal("docs/configuration.md has no line that begins with: user poold")
	}
	line = strings.NewReplacer("PASSWORD", Password, "~captcha:*", "~test-* ~replicas:* ~leases:* ~unknown:* ~reports:*",
		"&captcha:*", "&test-* &replicas:* &leases:* &unknown:* &reports:*").Replace(line)
	return strings.Fields(line)[1:]
}

// Do sends a command as the default user, who has all rights. Do returns the reply as text.
func Do(t testing.TB, addr string, args ...any) string {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	defer func() { _ = admin.Close() }()
	answer, err := admin.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(answer)
}
