! sh src/add.sh 1
