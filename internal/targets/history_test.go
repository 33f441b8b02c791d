package targets

import (
	"testing"
	"time"
)

func TestHistoryDefaultsDependOnTheBackend(t *testing.T) {
	const days = 24 * time.Hour
	for text, want := range map[string]History{
		"":                             {Backend: HistoryRedis, Keep: 7 * days, Audit: 7 * days},
		"history:\n":                   {Backend: HistoryRedis, Keep: 7 * days, Audit: 7 * days},
		"history: {keep: 24h}\n":       {Backend: HistoryRedis, Keep: days, Audit: 7 * days},
		"history: {audit: 24h}\n":      {Backend: HistoryRedis, Keep: 7 * days, Audit: days},
		"history: {audit: 43800h}\n":   {Backend: HistoryRedis, Keep: 7 * days, Audit: 5 * 365 * days},
		"history: {audit: 0s}\n":       {Backend: HistoryRedis, Keep: 7 * days},
		"history: {backend: none}\n":   {Backend: HistoryNone},
		"history: {keep: '43800h'}\n":  {Backend: HistoryRedis, Keep: 5 * 365 * days, Audit: 7 * days},
		"history: {backend: redis}\n":  {Backend: HistoryRedis, Keep: 7 * days, Audit: 7 * days},
		"history: {backend: '${B}'}\n": {Backend: HistoryDynamoDB, Keep: 90 * days, Audit: 7 * days, Table: "CaptchaSolves", ActiveItems: true},
		"history: {backend: dynamodb, table: abc, endpoint: '', keep: 48h}\n":  {Backend: HistoryDynamoDB, Keep: 2 * days, Audit: 7 * days, Table: "abc", ActiveItems: true},
		"history: {backend: dynamodb, active_items: false}\n":                  {Backend: HistoryDynamoDB, Keep: 90 * days, Audit: 7 * days, Table: "CaptchaSolves"},
		"history: {backend: postgres, url: 'postgres://u:p@h/d', audit: 0s}\n": {Backend: HistoryPostgres, Keep: 90 * days, URL: "postgres://u:p@h/d"},
		"history: {backend: postgres, url: '${D}', keep: 720h}\n":              {Backend: HistoryPostgres, Keep: 30 * days, Audit: 7 * days, URL: "postgres://h"},
	} {
		set, err := Parse("pools.yaml", []byte(text+minimal()), lookupOf("B", "dynamodb", "D", "postgres://h"))
		if err != nil {
			t.Errorf("%s%v", text, err)
		} else if set.History != want {
			t.Errorf("%s%+v", text, set.History)
		}
	}
}
