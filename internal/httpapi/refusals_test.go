package httpapi

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"poold/internal/testkit"
)

const (
	refusedLine = "client's call refused; correct the call, the key or the target"
)

// logLines returns the lines of the log that have the given message.
func (d *daemon) logLines(t *testing.T, message string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(d.logged.String()) {
		var line map[string]any
		testkit.NoError(t, json.Unmarshal([]byte(text), &line))
		if line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestRefusalsOfClientsAreLogged: each refusal is logged as one line. The line contains the caller
// and the reason. A repeated refusal is not logged again immediately.
func TestRefusalsOfClientsAreLogged(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	page := func(text string) string {
		return strings.Replace(inPHPSubmit(keyAll, "checkout"), url.QueryEscape("https://checkout.example.com/"),
			url.QueryEscape(text), 1)
	}
	known := 0
	for _, row := range []struct {
		path, answer string
		more         string // part of the reason
	}{
		{page("https://checkout.example.com/other"), "ERROR_DOMAIN_NOT_ALLOWED", "first difference: pageurl"},
		{inPHPSubmit(keyAll, "checkout", "&invisible=1&proxy=u:canary-query@h:1&proxytype=HTTP"), "ERROR_BAD_PARAMETERS",
			"a proxy without a target"},
		{inPHPSubmit(keyAll, "checkout", "&version=v3"), "ERROR_DOMAIN_NOT_ALLOWED", "first difference: "},
		{strings.Replace(inPHPSubmit(keyAll, "checkout"), "6LeI", "7LeI", 1), "ERROR_DOMAIN_NOT_ALLOWED",
			"first difference: "},
		{inPHPSubmit(keyAll, "checkout", "&cookies=a"), "ERROR_BAD_PARAMETERS", "does not support the parameter cookies"},
		{inPHPSubmit(keyAll, "checkout", "&pingback=https://h.example/"), "ERROR_BAD_PARAMETERS", "poll instead"},
		{page(""), "ERROR_BAD_PARAMETERS", "pageurl: is missing"},
		{inPHPSubmit(keyStaging, "checkout"), "ERROR_DOMAIN_NOT_ALLOWED", "no target of this key matches"},
		{"/res.php?key=" + keyAll + "&action=add_pingback", "ERROR_BAD_PARAMETERS", "add_pingback"},
		{"/res.php?key=" + keyStatus + "&action=getbalance", "ERROR_KEY_DOES_NOT_EXIST", "lacks the scope token"},
	} {
		if strings.Contains(row.path, "proxy") { // no target has a proxy, and the key may not buy
			d.config.set.Store(sampleSet(allKeys()[1]))
			row.path = strings.NewReplacer(keyAll, keyStaging, "checkout", "staging-login").Replace(row.path)
		}
		for range 2 {
			testkit.Equal(t, row.path, d.callInPHP(t, row.path), row.answer)
		}
		d.config.set.Store(sampleSet(allKeys()...))
		lines := d.logLines(t, refusedLine)
		if len(lines) != known+1 {
			t.Fatalf("%s: %d new lines in\n%s", row.path, len(lines)-known, d.logged)
		}
		known++
		line := lines[known-1]
		reason, _ := line["err"].(string)
		if line["level"] != "WARN" || line["code"] != row.answer || line["key"] == "" || line["route"] == "" ||
			!strings.Contains(reason, row.more) {
			t.Errorf("%s: %v", row.path, line)
		}
	}
	d.callInPHP(t, "/res.php?action=get&key=canary-key-wrong")
	d.callInPHP(t, "/res.php?action=get&id=x")
	testkit.Equal(t, "lines, with callers without a key", len(d.logLines(t, refusedLine)), known)
}

// TestClientsGetTheReasonOfARefusal: the reason of a refusal is in the field that clients show, and
// is short enough for these clients. A reply in plain text contains only the code.
func TestClientsGetTheReasonOfARefusal(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	submit := inPHPSubmit(keyAll, "elsewhere", "&json=1")
	for what, text := range map[string]any{
		"error_text":       parseAnswer[map[string]any](t, d.ask(t, "GET", submit))["error_text"],
		"errorDescription": d.callCreateTask(t, "/createTask", createTaskSubmit(keyAll, "elsewhere", ""))["errorDescription"],
	} {
		reason, _ := text.(string)
		if len(reason) > 200 || !strings.Contains(reason, "first difference: pageurl") {
			t.Errorf("%s: %s", what, reason)
		}
	}
	testkit.Equal(t, "plain text", d.callInPHP(t, inPHPSubmit(keyAll, "elsewhere")), "ERROR_DOMAIN_NOT_ALLOWED")
}
