module example.com/moderated-comments

go 1.26.0
