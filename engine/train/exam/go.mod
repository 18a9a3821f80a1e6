// A module of its own without any Go code, so that "go get" of the service leaves these texts out of what it downloads.
module github.com/caddy-moderation/caddy-moderation/engine/train/exam

go 1.26.0
