package pool

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// scripts are the steps that must be atomic. They use only commands that
// Redis 6.2, 7.0 and the embedded server share.
type scripts struct {
	take, giveBack, look, flush, report *redis.Script
	place, mark, submitted, unknown     *redis.Script
	settle, fail, find, adopt, renew    *redis.Script
	reserve, budget                     *redis.Script
}

func loadScripts() scripts {
	common, journal := source("common.lua"), source("journal.lua")
	script := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + source(name))
	}
	order := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + journal + "\n" + source(name))
	}
	return scripts{
		take:      script("take.lua"),
		place:     order("place.lua"),
		submitted: order("submitted.lua"),
		settle:    order("settle.lua"),
		fail:      order("fail.lua"),
		giveBack:  script("giveback.lua"),
		look:      order("look.lua"),
		reserve:   script("reserve.lua"),
		budget:    order("budget.lua"),
		mark:      order("mark.lua"),
		unknown:   order("unknown.lua"),
		find:      order("find.lua"),
		adopt:     order("adopt.lua"),
		renew:     order("renew.lua"),
		flush:     script("flush.lua"),
		report:    script("report.lua"),
	}
}

func source(name string) string {
	text, err := sources.ReadFile(name)
	if err != nil {
		panic("pool: script missing from the binary: " + name)
	}
	return string(text)
}
