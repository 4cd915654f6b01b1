engine
docker tag busybox localhost:5000/hello:1
