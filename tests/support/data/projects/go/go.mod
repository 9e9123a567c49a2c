module till

go 1.20
