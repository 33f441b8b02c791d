package targets

import (
	"strings"
	"testing"

	"poold/internal/testkit"
)

func TestNearestFindsTheMeantWord(t *testing.T) {
	known := []string{"depth", "wait", "min_ttl", "staging-login", "staging-signup"}
	for word, want := range map[string]string{
		"depth": "depth", "dpeth": "depth", "deptj": "depth", "dept": "depth", "Depth": "depth", "epth": "depth", "htped": "",
		"wiat": "wait", "wai": "wait", "w": "", "": "", "min-ttl": "min_ttl", "mintll": "min_ttl", "timeout": "",
		"staging-lgoin": "staging-login", "Staging_Login": "staging-login", "staging": "staging-login",
		"stagin-singup": "staging-signup", "\x1b[31mdepth": "", strings.Repeat("depth", 2000): "",
	} {
		testkit.Equal(t, "near "+word, Nearest(word, known), want)
	}
}
