package provider

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func init() {
	spoken[targets.ProtocolCreateTask] = dialect{
		profile: other,
		sold:    `{"errorId":0,"taskId":"5","status":"ready","solution":{"token":"5","gRecaptchaResponse":"5"}}`,
		granted: `"errorId":0,"status":"ready"`,
		refusals: []string{`{"errorId":1,"errorCode":"CODE"}`,
			`{"errorId":1,"errorCode":"CODE","errorDescription":"a sentence"}`},
	}
}

// If the protocol cannot express an identity, Submit returns a parameter fault without a call.
func TestCannotBeAsked(t *testing.T) {
	proxied := func(proxy captcha.Secret) captcha.Identity {
		id := v2
		id.Proxy, id.ProxyType = proxy, "http"
		return id
	}
	type row struct {
		api   targets.Protocol
		id    captcha.Identity
		image []byte
	}
	rows := []row{
		{targets.ProtocolCreateTask, proxied("secret-user:secret-word@example.com"), nil},
		{targets.ProtocolCreateTask, proxied("secret-user:secret-word@:80"), nil},
		{targets.ProtocolCreateTask, proxied("secret-word:0"), nil},
		{targets.ProtocolCreateTask, proxied("secret-word:70000"), nil},
		{targets.ProtocolCreateTask, captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{Language: "de"}},
			thePicture()},
		{targets.ProtocolCreateTask, captcha.Identity{Type: captcha.Image, Proxy: "192.0.2.1:80", ProxyType: "http"},
			thePicture()},
	}
	for _, d := range dialects() {
		rows = append(rows, row{d.api, captcha.Identity{Type: "rotate"}, nil},
			row{d.api, captcha.Identity{Type: captcha.Image}, nil}) // the bytes of the picture are missing
	}
	for _, row := range rows {
		c, _, w, _ := newScriptedClient(t, targets.Provider{Protocol: row.api})
		_, err := c.Submit(context.Background(), Submission{Identity: row.id, Image: row.image})
		if e := faultOf(t, err); e.Class != Parameters || e.Code != NotAsked || e.Unknown || w.count() != 0 {
			t.Errorf("%+v: %v after %d calls", row.id, err, w.count())
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the proxy: %v", err)
		}
	}
}

// A service may answer createTask with the solution, and then not know the task any more.
func TestATaskThatIsSolvedAtOnce(t *testing.T) {
	c, _, w, says := newScriptedClient(t, targets.Provider{Protocol: targets.ProtocolCreateTask})
	says(http.StatusOK, `{"errorId":0,"taskId":"7","status":"ready","solution":{"text":"abc"}}`)
	id := captcha.Identity{Type: captcha.Image}
	task, err := c.Submit(t.Context(), Submission{Identity: id, Image: thePicture()})
	testkit.NoError(t, err)
	if s, is := c.SolvedAtOnce(task); !is || s.Token != "abc" || w.count() != 1 {
		t.Errorf("%+v, %v after %d calls", s, is, w.count())
	}
	_, is := c.SolvedAtOnce(task)
	testkit.Equal(t, "the solution is still there", is, false)
}
