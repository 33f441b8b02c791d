package captcha

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// No two identities that differ in a field share an ID, also where the texts
// of two fields put together are the same.
func TestIDsDiffer(t *testing.T) {
	base := Identity{
		Type: Turnstile, Sitekey: "key", Pageurl: "https://example.com/", Action: "a", Data: "d",
		UserAgent: "u", Proxy: "p", ProxyType: "http", MinScore: 0.3,
	}
	others := map[string]func(*Identity){
		"type":       func(i *Identity) { i.Type = HCaptcha },
		"sitekey":    func(i *Identity) { i.Sitekey = "key2" },
		"pageurl":    func(i *Identity) { i.Pageurl += "x" },
		"invisible":  func(i *Identity) { i.Invisible = true },
		"enterprise": func(i *Identity) { i.Enterprise = true },
		"action":     func(i *Identity) { i.Action = "" },
		"min_score":  func(i *Identity) { i.MinScore = 0.7 },
		"data":       func(i *Identity) { i.Data = "e" },
		"user_agent": func(i *Identity) { i.UserAgent = "" },
		"proxy":      func(i *Identity) { i.Proxy = "q" },
		"proxy_type": func(i *Identity) { i.ProxyType = "socks5" },
		"a border":   func(i *Identity) { i.Action, i.Data = "ad", "" },
	}
	seen := map[ID]string{base.ID(): "the identity itself"}
	for name, change := range others {
		other := base
		change(&other)
		if was, taken := seen[other.ID()]; taken {
			t.Errorf("%s: the same ID as %s", name, was)
		}
		seen[other.ID()] = name
	}
	if id := base.ID(); len(id) != 32 || strings.Trim(string(id), "0123456789abcdef") != "" || id != base.ID() {
		t.Errorf("ID %q", id)
	}
	// Stock that a former version bought must be found again.
	if id := (Identity{Type: RecaptchaV2, Sitekey: "k", Pageurl: "https://example.com"}).ID(); id != "306a9a1363e012923e9df85c533a25d0" {
		t.Errorf("the ID of an identity has changed to %s: all stock would be abandoned", id)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	const canary = "canary-4711"
	value := struct {
		Key   Secret
		Inner map[string]Secret
		Ptr   *Secret
	}{Key: canary, Inner: map[string]Secret{"a": canary}, Ptr: new(Secret)}
	*value.Ptr = canary
	var printed bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&printed, format+"\n", value)
		fmt.Fprintf(&printed, format+"\n", value.Key)
		fmt.Fprintf(&printed, format+"\n", *value.Ptr)
	}
	fmt.Fprintln(&printed, value, value.Key, fmt.Errorf("err %w %v", fmt.Errorf("x"), value.Key))
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(text)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(handler).Info("x", "key", value.Key, "value", value)
	}
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("a secret was printed: %s", printed.String())
		}
	}
	if value.Key.Reveal() != canary {
		t.Error("Reveal does not reveal")
	}
	if got := fmt.Sprint(Secret("")); got != "" {
		t.Errorf("an empty secret prints as %q", got)
	}
}
