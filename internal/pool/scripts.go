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
	take, place, submitted, settle, fail, giveBack, look, reserve *redis.Script
}

func loadScripts() scripts {
	common := source("common.lua")
	script := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + source(name))
	}
	return scripts{
		take:      script("take.lua"),
		place:     script("place.lua"),
		submitted: script("submitted.lua"),
		settle:    script("settle.lua"),
		fail:      script("fail.lua"),
		giveBack:  script("giveback.lua"),
		look:      script("look.lua"),
		reserve:   script("reserve.lua"),
	}
}

func source(name string) string {
	text, err := sources.ReadFile(name)
	if err != nil {
		panic("pool: script missing from the binary: " + name)
	}
	return string(text)
}
